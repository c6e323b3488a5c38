package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A short session TTL means many renewals, so such a session may hold fewer locks.
func TestASessionHoldsAsManyLocksAsItsTTLLeavesTimeToRenew(t *testing.T) {
	inWorld(t, func(w *world) {
		c, ttl := w.openWith(session.OpenRequest{TTL: 2 * time.Second}), 2000
		if c.MaxLocks() != ttl {
			t.Errorf("%d locks are announced, want %d", c.MaxLocks(), ttl)
		}
		for i := range ttl {
			c.acquire(request.Acquire{Name: name(i)})
		}
		events := c.events()
		for _, e := range events {
			if _, ok := e.(session.Granted); !ok {
				t.Fatalf("got %#v, want all to be granted", e)
			}
		}
		c.acquire(request.Acquire{Name: "one more"})
		c.full(ttl)
		c.release(events[0].(session.Granted).Hold)
		c.take("one more")

		if usual := w.open(); usual.MaxLocks() != testConfig().Limits.LocksPerSession {
			t.Errorf("a session with the usual TTL may hold %d locks, want what is configured", usual.MaxLocks())
		}
	})
}

// full takes the only event, which must be that this limit is reached.
func (c *client) full(limit int) {
	c.t.Helper()
	var quota *session.QuotaError
	if got := one[session.Failed](c); !errors.As(got.Err, &quota) || quota.Subject != "locks" || quota.Limit != limit {
		c.t.Fatalf("got %v, want that the limit of %d locks is reached", got.Err, limit)
	}
}
