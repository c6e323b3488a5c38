package origin_test

import (
	"net"
	"testing"

	"github.com/lockd-io/lockd/internal/origin"
)

// A client has many addresses of IPv6, and one origin.
func TestWhatOneClientCanHaveIsOneOrigin(t *testing.T) {
	for peer, want := range map[string]string{
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
		if got := origin.Text(origin.Of(peer)); got != want {
			t.Errorf("%q: got %q, want %q", peer, got, want)
		}
	}
	tcp := &net.TCPAddr{IP: net.ParseIP("2001:db8:1:2::5"), Port: 7}
	if got := origin.OfAddr(tcp); got != origin.Of("[2001:db8:1:2::1]:7") {
		t.Errorf("%v: got %v", tcp, got)
	}
	if got := origin.OfAddr(nil); got.IsValid() {
		t.Errorf("no address: got %v", got)
	}
}
