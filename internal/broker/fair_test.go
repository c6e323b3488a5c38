package broker_test

import (
	"slices"
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

func TestManyFairWaitersOfOneSessionAreServedInTheOrderOfTheirRequests(t *testing.T) {
	inWorld(t, func(w *world) {
		holder, c := w.alive(), w.replica().alive()
		g := holder.takeKind("job", lock.Fair)
		ids := make([]uint64, 1200) // more than one call can enlist
		for i := range ids {
			ids[i] = c.acquire(of("job", lock.Fair))
		}
		for i, e := range c.events() {
			if q := e.(session.Queued); q.ID != ids[i] || q.Position != i {
				t.Fatalf("request %d is told %+v", i, q)
			}
		}
		holder.release(g.Hold)
		for i, id := range ids {
			g := one[session.Granted](c)
			if g.ID != id {
				t.Fatalf("grant %d is for request %d, want %d", i, g.ID, id)
			}
			c.Release(c.id(), g.Hold)
			events := c.events()
			if i == len(ids)-1 {
				break
			}
			if len(events) != 2 {
				t.Fatalf("got %#v", events)
			}
			c.putBack(events[slices.IndexFunc(events, isGranted)])
		}
	})
}

func isGranted(e session.Event) bool { _, ok := e.(session.Granted); return ok }
