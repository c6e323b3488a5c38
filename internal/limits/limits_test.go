package limits

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

// A client has many addresses of IPv6, and is one tenant.
func TestWhatOneClientCanHaveIsOneTenant(t *testing.T) {
	for peer, want := range map[string]lock.Tenant{
		"10.0.0.1:7":                       "10.0.0.1",
		"10.0.0.2:7":                       "10.0.0.2",
		"[::ffff:10.0.0.1]:8":              "10.0.0.1",
		"[2001:db8:1:2::1]:7":              "2001:db8:1:2::",
		"[2001:db8:1:2:ffff:1:2:3]:8":      "2001:db8:1:2::",
		"[2001:db8:1:3::1]:7":              "2001:db8:1:3::",
		"[fe80::1%eth0]:7":                 "fe80::",
		"bufconn":                          "",
		"@":                                "",
		"":                                 "",
		"[::ffff:10.0.0.1%eth0]:8":         "10.0.0.1",
		"[2001:db8:1:2:ffff:1:2:3]:100000": "",
	} {
		if got := TenantOf(peer); got != want {
			t.Errorf("%q: got %q, want %q", peer, got, want)
		}
	}
	if got := TenantAt(nil); got != "" {
		t.Errorf("got %q for a connection without an address", got)
	}
}
