package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// permits is a request for permits of a semaphore.
func permits(n, limit uint32) broker.AcquireRequest {
	return broker.AcquireRequest{Name: "pool", Kind: lock.Semaphore, Permits: n, Limit: limit}
}

func TestPermitsUpToTheLimit(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.alive(), w.replica().alive()
		g := a.takeAs(permits(2, 3))
		b.takeAs(permits(1, 3))
		b.busy(permits(1, 3))
		b.queueAs(permits(2, 0))
		if st := w.look("pool"); st.Limit != 3 || st.Holders != 3 {
			t.Errorf("got %+v, want 3 of 3", st)
		}
		a.release(g.Hold)
		one[broker.Granted](b)
	})
}

func TestTheFirstLimitCounts(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.refused(permits(1, 0), lock.ErrLimitMismatch)
		c.takeAs(permits(1, 3))
		c.acquire(permits(1, 4))
		f := one[broker.Failed](c)
		if limit, ok := errors.AsType[*lock.LimitError](f.Err); !ok || limit.Limit != 3 {
			t.Errorf("got %v, want a LimitError with 3", f.Err)
		}
		c.takeAs(permits(1, 0))
	})
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
		c.refused(broker.AcquireRequest{Name: "x", Kind: lock.Exclusive, Permits: 2}, lock.ErrInvalid)
		c.refused(broker.AcquireRequest{Name: "x", Kind: lock.Read, Limit: 2}, lock.ErrInvalid)
	})
}

func TestLostPermitsReturnByThemselves(t *testing.T) {
	inWorld(t, func(w *world) {
		dead, b := w.open(), w.replica().alive()
		dead.takeAs(permits(2, 2))
		b.queueAs(permits(2, 2))
		b.grantedWithin(31 * time.Second)
	})
}

func TestPermitsOfOneRequestAreOneHold(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.takeAs(permits(3, 5))
		h := c.takeAs(permits(2, 5))
		c.release(g.Hold)
		if st := w.look("pool"); st.Holders != 2 {
			t.Errorf("%d permits are out, want 2", st.Holders)
		}
		c.Release(c.id(), g.Hold)
		c.failed(lock.ErrNotHeld)
		if infos := w.b.Leases("", "", 10); len(infos) != 1 || infos[0].Permits != 2 {
			t.Errorf("got %+v, want one lease of 2 permits", infos)
		}
		c.release(h.Hold)
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
		g := one[broker.Granted](big)
		small.none()
		big.release(g.Hold)
		one[broker.Granted](small)
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
			if lost := one[broker.Lost](c); lost.Reason != lock.LostForced {
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
		small.release(one[broker.Granted](small).Hold)
		id, _ = big.queueAs(permits(2, 3))
		time.Sleep(time.Second)
		big.Cancel(big.id(), id)
		req := permits(1, 3)
		req.Wait = new(time.Duration)
		try.takeAs(req) // at the same instant
	})
}
