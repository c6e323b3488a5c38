package broker_test

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// permits is a request for permits of a semaphore.
func permits(n, limit uint32) request.Acquire {
	return request.Acquire{Name: "pool", Kind: lock.Semaphore, Permits: n, Limit: limit}
}

func TestManyHoldersOfPermitsAreListedAndLost(t *testing.T) {
	inWorld(t, func(w *world) {
		clients := make([]*client, 20)
		for i := range clients {
			clients[i] = w.alive()
			clients[i].takeAs(permits(1, 20))
		}
		seen := 0
		for after := ""; ; {
			page := w.b.Leases("po", after, 7)
			seen += len(page)
			if len(page) == 0 {
				break
			}
			after = page[len(page)-1].Key
		}
		if seen != 20 {
			t.Errorf("%d leases are listed, want 20", seen)
		}
		if ok, err := w.b.ForceRelease(t.Context(), "pool", lock.Semaphore); err != nil || !ok {
			t.Fatal(ok, err)
		}
		for _, c := range clients {
			if lost := one[session.Lost](c); lost.Reason != lock.LostForced {
				t.Errorf("got %v, want forced", lost.Reason)
			}
		}
		clients[0].takeAs(permits(20, 20))
	})
}

func TestWaitersForSeveralPermitsAreServedInTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.alive(), w.alive(), w.replica().alive()
		g := a.takeAs(permits(3, 3))
		b.queueAs(permits(2, 3))
		c.queueAs(permits(2, 3))
		a.release(g.Hold)
		next, last := b, c
		events := next.events()
		if len(events) == 0 { // replicas compete
			next, last = c, b
			events = next.events()
		}
		h, ok := events[0].(session.Granted)
		if !ok {
			t.Fatalf("got %#v, want a grant", events)
		}
		last.none()
		next.release(h.Hold)
		one[session.Granted](last)
	})
}
