package limits

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

// Also on a machine with many processors.
func TestANewAccountOwesNothing(t *testing.T) {
	for _, share := range []float64{0.1, 1, 64} {
		var a Account
		r := Rate{Share: share, Burst: time.Second, MostDebt: time.Minute}
		if got := a.Owes(r, time.Now()); got != -r.Burst {
			t.Errorf("with a share of %v it owes %v, want %v", share, got, -r.Burst)
		}
	}
}

// A slot goes to one session: a session that waits for its client does not get it a second time.
func TestASlotIsGivenOnce(t *testing.T) {
	ts := newTenants(Limits{})
	s, err := ts.Arrive("a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ts.Begin(s, "a"); got != s || err != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	s.Part()
	if got, err := ts.Begin(s, "a"); got != nil || err != nil {
		t.Errorf("got %v, %v, want none", got, err)
	}
	s.End()
	if ts.all != 0 || ts.parted != 0 || len(ts.sessions) != 0 {
		t.Errorf("%d slots, %d parted sessions and %v are left", ts.all, ts.parted, ts.sessions)
	}
}

// Who finds no slot waits as long as it may, and hears one reason if it gets none.
func TestWhoFindsNoSlot(t *testing.T) {
	errOver := errors.New("over")
	for name, row := range map[string]struct {
		patience, free, over, took time.Duration // free: when there is a slot; over: when its context is
		want                       error
	}{
		"does not wait":       {patience: 0, free: time.Hour, over: time.Hour, want: errDenied},
		"is late already":     {patience: -1, free: time.Hour, over: time.Hour, want: errDenied},
		"gets some in time":   {patience: 3, free: 2, over: time.Hour, took: 2},
		"waits in vain":       {patience: 3, free: 4, over: time.Hour, took: 3, want: errDenied},
		"goes before":         {patience: 3, free: 4, over: 2, took: 2, want: errOver},
		"goes while it waits": {patience: time.Hour, free: 4, over: 2, took: 2, want: errOver},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := NewQuota("things", 1, func(string, int) error { return errDenied })
			if err := q.Enter(t.Context(), 0); err != nil {
				t.Fatalf("%s: an empty one: %v", name, err)
			}
			ctx, end := context.WithCancelCause(t.Context())
			leave := time.AfterFunc(row.free, q.Leave)
			over := time.AfterFunc(row.over, func() { end(errOver) })
			begun := time.Now()
			if err := q.Enter(ctx, row.patience); !errors.Is(err, row.want) || time.Since(begun) != row.took {
				t.Errorf("%s: got %v after %v, want %v after %v", name, err, time.Since(begun), row.want, row.took)
			}
			leave.Stop()
			over.Stop()
		})
	}
}
