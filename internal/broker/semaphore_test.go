package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// permits is a request for permits of a semaphore.
func permits(n, limit uint32) request.Acquire {
	return request.Acquire{Name: "pool", Kind: lock.Semaphore, Permits: n, Limit: limit}
}

func TestImpossiblePermitsAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.takeAs(permits(1, 3))
		c.refused(permits(4, 0), lock.ErrInvalid)
		c.refused(permits(4, 3), lock.ErrInvalid)
		c.refused(permits(1001, 0), lock.ErrInvalid)
		named := permits(1, 3)
		named.Holder = "h"
		c.refused(named, lock.ErrInvalid)
		c.refused(request.Acquire{Name: "x", Kind: lock.Exclusive, Permits: 2}, lock.ErrInvalid)
		c.refused(request.Acquire{Name: "x", Kind: lock.Read, Limit: 2}, lock.ErrInvalid)
	})
}

func TestWaitersForPermitsAreServedInTheirOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		a, big, small := w.alive(), w.alive(), w.alive()
		one1, one2 := a.takeAs(permits(1, 3)), a.takeAs(permits(1, 3))
		big.queueAs(permits(3, 3))
		small.queueAs(permits(1, 3)) // it would fit, but the other was first
		small.none()
		a.release(one1.Hold)
		big.none()
		a.release(one2.Hold)
		g := one[session.Granted](big)
		small.none()
		big.release(g.Hold)
		one[session.Granted](small)
	})
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
			after = page[len(page)-1].Key()
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

func TestNextWaiterIsTriedAtOnceWhenTheOneThatWantsMoreLeaves(t *testing.T) {
	inWorld(t, func(w *world) {
		other, big, small, try := w.replica().alive(), w.alive(), w.alive(), w.alive()
		other.takeAs(permits(1, 3))
		other.takeAs(permits(1, 3))
		id, _ := big.queueAs(permits(3, 3))
		small.queueAs(permits(1, 3))
		time.Sleep(time.Second)
		big.Cancel(big.id(), id)
		big.events()
		small.release(one[session.Granted](small).Hold)
		id, _ = big.queueAs(permits(2, 3))
		time.Sleep(time.Second)
		big.Cancel(big.id(), id)
		req := permits(1, 3)
		req.Wait = new(time.Duration)
		try.takeAs(req) // at the same instant
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
