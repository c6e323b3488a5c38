package broker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
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

// TestManyFairWaitersKeepTheirPlacesAndOrder lets more of them wait than are kept at a time. When their session goes
// and does not come back, its places are left alone for a while, and do not stay in the store.
func TestManyFairWaitersKeepTheirPlacesAndOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.replica().alive()
		holder.takeKind("job", lock.Fair)
		const n = 1700
		c := w.leaving()
		w.t.Cleanup(c.beats())
		for i := range n {
			c.Acquire(uint64(i+1), request.Acquire{Name: "job", Kind: lock.Fair})
		}
		order := func() (owners []lock.Owner) {
			in, err := w.b.Inspect(w.t.Context(), "job", 1, 2*n)
			must(t, err)
			for _, i := range in.Waiters {
				owners = append(owners, i.Owner)
			}
			return owners
		}
		time.Sleep(10 * time.Second)
		before := order()
		time.Sleep(30 * time.Second)
		after := order()
		if len(before) != n || len(after) != n {
			t.Fatalf("%d waiters have places, and %d half a minute later, want %d", len(before), len(after), n)
		}
		for i := range after {
			if before[i] != after[i] {
				t.Fatalf("place %d was that of %s and is that of %s", i, before[i], after[i])
			}
		}
		c.Detach(errCut)
		for _, want := range []int{n, 0} {
			time.Sleep(7 * time.Second)
			if got := len(order()); got != want {
				t.Errorf("%d have places when their session went, want %d", got, want)
			}
		}
	})
}
