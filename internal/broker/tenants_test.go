package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func TestUnaryCallsOfAnAddressAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.CallsPerAddress, cfg.Limits.WaitsPerAddress = 2, 2
	for waits, subject := range map[bool]string{false: "calls_per_address", true: "waits_per_address"} {
		inWorldWith(t, cfg, func(w *world) {
			admit := func(peer string) func() {
				done, err := w.b.Tenants().Call(w.t.Context(), limits.TenantOf(peer), waits)
				if err != nil {
					w.t.Fatalf("%s: %v", subject, err)
				}
				return done
			}
			first, second := admit("10.0.0.1:1"), admit("10.0.0.1:2")
			if _, err := w.b.Tenants().Call(w.t.Context(), "10.0.0.1", waits); !isQuota(err, subject) {
				w.t.Errorf("a third: got %v, want %s", err, subject)
			}
			admit("10.0.0.2:1")() // others are not concerned
			first()
			admit("10.0.0.1:3")
			second()
			admit("10.0.0.1:4")
		})
	}
}

// from opens a session of a client with a network address.
func (w *world) from(peer string) (*broker.Session, error) {
	return w.b.Open(session.OpenRequest{Client: session.Client{Peer: peer, Tenant: limits.TenantOf(peer)}})
}

func isQuota(err error, subject string) bool {
	quota, ok := errors.AsType[*session.QuotaError](err)
	return ok && quota.Subject == subject
}

// TestOneAddressCannotHaveAllSessions opens sessions from one address until it has no room, while others have.
func TestOneAddressCannotHaveAllSessions(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.Sessions, cfg.Limits.SessionsPerAddress = 13, 3
	inWorldWith(t, cfg, func(w *world) {
		for _, peers := range [][]string{
			{"10.0.0.1:%d", "[::ffff:10.0.0.1]:%d"},
			{"[fe80::1%%eth0]:%d", "[fe80::1%%eth1]:%d"},
			{"bufconn", "@"},
			{"[2001:db8::%d]:1", "[2001:db8::abcd:%d]:1"},
		} {
			var opened []*broker.Session
			for i := range 3 {
				s, err := w.from(at(peers[0], i))
				if err != nil {
					t.Fatalf("session %d of %s: %v", i, peers[0], err)
				}
				opened = append(opened, s)
			}
			if _, err := w.from(at(peers[1], 9)); !isQuota(err, "sessions_per_address") {
				t.Errorf("one session too many from %s: got %v", peers[1], err)
			}
			opened[1].Goodbye()
			if _, err := w.from(at(peers[1], 9)); err != nil {
				t.Errorf("after one has left: %v", err)
			}
		}
		if _, err := w.from("10.0.0.2:1"); err != nil {
			t.Errorf("from another address: %v", err)
		}
		if _, err := w.from("10.0.0.2:2"); !isQuota(err, "sessions") {
			t.Errorf("one session too many for the replica: got %v", err)
		}
	})
}

func at(peer string, port int) string {
	if len(peer) < 9 {
		return peer
	}
	return fmt.Sprintf(peer, port+1)
}

// TestStreamsThatDoNotOpenAreCounted takes slots without opening a session.
func TestStreamsThatDoNotOpenAreCounted(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.SessionsPerAddress = 2
	inWorldWith(t, cfg, func(w *world) {
		const peer = "10.0.0.1"
		arrive := func() *limits.Slot {
			s, err := w.b.Arrive(peer)
			must(t, err)
			return s
		}
		first, second := arrive(), arrive()
		if _, err := w.b.Arrive(peer); !isQuota(err, "sessions_per_address") {
			t.Errorf("one too many came: got %v", err)
		}
		s, err := w.b.Open(session.OpenRequest{Client: session.Client{Tenant: peer}, Slot: first})
		must(t, err)
		first.Leave() // the session keeps it
		if _, err := w.b.Arrive(peer); !isQuota(err, "sessions_per_address") {
			t.Errorf("one too many beside a session: got %v", err)
		}
		second.Leave()
		if _, err := w.b.Open(session.OpenRequest{Slot: second}); !errors.Is(err, session.ErrNotOpen) {
			t.Errorf("a session in a slot that was left: got %v", err)
		}
		s.Goodbye()
		first.Leave()
		arrive()
		arrive()
	})
}

// The keeper has the renewals' way to the store for itself.
func TestNothingThatClientsAskForUsesTheWayOfRenewals(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		hold := c.takeAs(request.Acquire{Name: "fixed", Lease: new(time.Minute)}).Hold
		c.Extend(c.id(), request.Extend{Hold: hold, Lease: new(2 * time.Minute)})
		one[session.Extended](c)

		once := request.Once{Name: "once", Kind: lock.Exclusive, Lease: time.Minute, LeaseID: "ABCDEFGHIJKLMNOPQRSTUV"}
		w.mustOnce(once)
		if _, err := w.b.ExtendOnce(once); err != nil {
			w.t.Error(err)
		}
		c.queue("once")
		w.mustOnce(once)
		if n := w.store.renewals.Load(); n != 0 {
			w.t.Errorf("%d calls of Renew, want none", n)
		}
	})
}
