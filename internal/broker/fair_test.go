package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

func TestFairWaitersAreServedInTheirOrderOverAllReplicas(t *testing.T) {
	inWorld(t, func(w *world) {
		worlds := []*world{w, w.replica(), w.replica()}
		holder := w.alive()
		g := holder.takeKind("job", lock.Fair)
		const n = 30
		clients := make([]*client, n)
		for i := range n {
			clients[i] = worlds[(i*i+i/3)%3].alive()
			if _, position := clients[i].queueAs(of("job", lock.Fair)); position != i {
				t.Errorf("waiter %d is told position %d", i, position)
			}
		}
		holder.release(g.Hold)
		for i, c := range clients {
			g := one[session.Granted](c)
			for _, later := range clients[i+1:] {
				later.none()
			}
			c.release(g.Hold)
		}
		w.free("job")
	})
}

// TestFairGrantsCostThreeCallsAtMost counts what two replicas need to pass a lock on between them: an Enlist, an
// attempt and a release for each grant.
func TestFairGrantsCostThreeCallsAtMost(t *testing.T) {
	inWorld(t, func(w *world) {
		worlds := []*world{w, w.replica()}
		holder := w.alive()
		g := holder.takeKind("job", lock.Fair)
		const n = 40
		clients := make([]*client, n)
		for i := range n {
			clients[i] = worlds[i%2].alive()
			clients[i].queueKind("job", lock.Fair)
		}
		before := w.store.acquires.Load() + w.store.releases.Load()
		holder.release(g.Hold)
		for _, c := range clients {
			c.release(one[session.Granted](c).Hold)
		}
		if calls := w.store.acquires.Load() + w.store.releases.Load() - before; calls > 2*n+5 {
			t.Errorf("%d grants took %d attempts and releases, want at most two each", n, calls)
		}
	})
}

func TestFairLockIsHandedOverInsideAReplica(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.alive()
		g := holder.takeKind("job", lock.Fair)
		clients := make([]*client, 50) // more than a burst
		for i := range clients {
			clients[i] = w.alive()
			clients[i].queueKind("job", lock.Fair)
		}
		before := w.store.acquires.Load()
		holder.release(g.Hold)
		for _, c := range clients {
			c.release(one[session.Granted](c).Hold)
		}
		if calls := w.store.acquires.Load() - before; calls > 0 {
			t.Errorf("%d attempts were made, want none", calls)
		}
	})
}

func TestFairQueueIsShownWithAllReplicasWaiters(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		w.alive().takeKind("job", lock.Fair)
		w.alive().queueKind("job", lock.Fair)
		there.alive().queueKind("job", lock.Fair)
		w.alive().queueKind("job", lock.Fair)
		in, err := w.b.Inspect(w.t.Context(), "job", 1, 10)
		if err != nil {
			t.Fatal(err)
		}
		var seen []string
		for _, i := range in.Waiters {
			seen = append(seen, fmt.Sprint(i.Position, i.Kind, i.Session != "", i.Owner != ""))
		}
		if want := []string{"0 fair true true", "1 fair true true", "2 fair true true"}; !slices.Equal(seen, want) {
			t.Errorf("got %q, want %q", seen, want)
		}
		if info, err := w.b.Lock(t.Context(), "job"); err != nil || info.Queued != 3 || info.Kind != lock.Fair {
			t.Errorf("got %+v, %v, want three that queue", info, err)
		}
	})
}

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

// TestFairWaiterWhoseTurnItIsInTheStoreIsServed has a waiter taken for dead by others, so that the order in the store
// is not that of the replica, which hears nothing of it.
func TestFairWaiterWhoseTurnItIsInTheStoreIsServed(t *testing.T) {
	inWorld(t, func(w *world) {
		far, store := w.severable()
		store.setDeaf(true)
		req := of("job", lock.Fair)
		req.Lease = new(5 * time.Second)
		w.alive().takeAs(req)
		first, second := far.alive(), far.alive()
		first.queueKind("job", lock.Fair)
		second.queueKind("job", lock.Fair)
		dead, err := w.store.Queue(t.Context(), "job", 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.store.Leave(t.Context(), "job", lock.Fair, dead); err != nil {
			t.Fatal(err)
		}
		second.release(second.grantedWithin(7 * time.Second).Hold)
		first.grantedWithin(3 * time.Second)
	})
}
