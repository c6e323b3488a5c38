package broker_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// takeKind acquires a free lock of a kind.
func (c *client) takeKind(name string, k lock.Kind) broker.Granted {
	c.t.Helper()
	return c.takeAs(broker.AcquireRequest{Name: name, Kind: k})
}

// takeAs makes a request that is granted at once.
func (c *client) takeAs(req broker.AcquireRequest) broker.Granted {
	c.t.Helper()
	c.acquire(req)
	return one[broker.Granted](c)
}

// queueAs makes a request that has to wait, and returns its id and the position it is told.
func (c *client) queueAs(req broker.AcquireRequest) (id uint64, position int) {
	c.t.Helper()
	id = c.acquire(req)
	return id, one[broker.Queued](c).Position
}

func (c *client) queueKind(name string, k lock.Kind) uint64 {
	c.t.Helper()
	id, _ := c.queueAs(broker.AcquireRequest{Name: name, Kind: k})
	return id
}

// refused makes a request that fails at once.
func (c *client) refused(req broker.AcquireRequest, want error) {
	c.t.Helper()
	c.acquire(req)
	c.failed(want)
}

// busy tries, and is refused because the lock is held.
func (c *client) busy(req broker.AcquireRequest) {
	c.t.Helper()
	req.Wait = new(time.Duration)
	c.acquire(req)
	c.notGranted(lock.ErrHeld)
}

// granted takes the only event, which must be a grant; it waits for it for at most so long.
func (c *client) grantedWithin(d time.Duration) broker.Granted {
	c.t.Helper()
	begin := time.Now()
	for {
		events := c.events()
		for _, e := range events {
			if g, ok := e.(broker.Granted); ok {
				return g
			}
			if _, ok := e.(broker.Queued); !ok {
				c.t.Fatalf("got %#v, want a grant", e)
			}
		}
		if time.Since(begin) >= d {
			c.t.Fatalf("not granted within %v", d)
		}
		time.Sleep(time.Millisecond)
	}
}

var allKinds = []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore}

// of is a request for a name of a kind; a semaphore has one permit unless it is said.
func of(name string, k lock.Kind) broker.AcquireRequest {
	req := broker.AcquireRequest{Name: name, Kind: k}
	if k == lock.Semaphore {
		req.Limit = 1
	}
	return req
}

func eachKind(t *testing.T, kinds []lock.Kind, test func(w *world, k lock.Kind)) {
	for _, k := range kinds {
		t.Run(k.String(), func(t *testing.T) { inWorld(t, func(w *world) { test(w, k) }) })
	}
}

// alone are the kinds that have one holder at a time; a semaphore with one permit is like them.
var alone = []lock.Kind{lock.Exclusive, lock.Fair, lock.Write, lock.Semaphore}

func TestOneHolderAfterTheOther(t *testing.T) {
	eachKind(t, alone, func(w *world, k lock.Kind) {
		a, b := w.alive(), w.replica().alive()
		var last lock.Fence
		for range 3 {
			g := a.takeAs(of("job", k))
			b.busy(of("job", k))
			b.queueAs(of("job", k))
			a.release(g.Hold)
			h := one[broker.Granted](b)
			if g.Hold.Fence <= last || h.Hold.Fence <= g.Hold.Fence {
				t.Errorf("fences %d, %d, %d do not rise", last, g.Hold.Fence, h.Hold.Fence)
			}
			last = h.Hold.Fence
			b.release(h.Hold)
			w.free("job")
		}
	})
}

func TestUncontendedAcquireAndReleaseAreOneCallEach(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		c := w.alive()
		g := c.takeAs(of("job", k))
		c.release(g.Hold)
		if a, r := w.store.acquires.Load(), w.store.releases.Load(); a != 1 || r != 1 {
			t.Errorf("got %d acquires and %d releases, want one each", a, r)
		}
	})
}

func TestLeaseOfEveryKindIsRenewedWhileItsClientLives(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		c := w.alive()
		g := c.takeAs(of("job", k))
		time.Sleep(5 * time.Minute)
		c.none()
		c.release(g.Hold)
		w.free("job")
	})
}

func TestLeaseOfEveryKindEndsWithItsSilentClient(t *testing.T) {
	eachKind(t, alone, func(w *world, k lock.Kind) {
		silent, other := w.open(), w.replica().alive()
		silent.takeAs(of("job", k))
		other.queueAs(of("job", k))
		other.grantedWithin(31 * time.Second)
	})
}

func TestWaiterOfEveryKindGetsAFixedLeaseAtItsEnd(t *testing.T) {
	eachKind(t, alone, func(w *world, k lock.Kind) {
		a, b := w.alive(), w.replica().alive()
		req := of("job", k)
		req.Lease = new(2 * time.Second)
		a.takeAs(req)
		b.queueAs(of("job", k))
		b.grantedWithin(2020 * time.Millisecond)
	})
}

func TestWaitOfEveryKindEnds(t *testing.T) {
	eachKind(t, alone, func(w *world, k lock.Kind) {
		a, b := w.alive(), w.replica().alive()
		a.takeAs(of("job", k))
		req := of("job", k)
		req.Wait = new(3 * time.Second)
		b.queueAs(req)
		time.Sleep(3*time.Second - time.Millisecond)
		b.none()
		time.Sleep(time.Millisecond)
		b.notGranted(broker.ErrTimedOut)
	})
}

func TestCancelledWaitOfEveryKindLeavesNothing(t *testing.T) {
	eachKind(t, alone, func(w *world, k lock.Kind) {
		a, b, c := w.alive(), w.replica().alive(), w.replica().alive()
		g := a.takeAs(of("job", k))
		id, _ := b.queueAs(of("job", k))
		b.Cancel(b.id(), id)
		if events := b.events(); len(events) != 2 {
			t.Fatalf("got %#v, want the end of the wait and of the cancel", events)
		}
		c.queueAs(of("job", k))
		a.release(g.Hold)
		h := one[broker.Granted](c)
		c.release(h.Hold)
		b.none()
		time.Sleep(time.Minute)
		w.free("job")
		if left, err := w.store.Queue(t.Context(), "job", 0, 10); err != nil || len(left) > 0 {
			t.Errorf("left in the queue: %v, %v", left, err)
		}
	})
}

func TestForceReleaseOfEveryKindIsToldAndWakesWaiters(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		a, b := w.alive(), w.replica().alive()
		a.takeAs(of("job", k))
		waits := k
		if k == lock.Read {
			waits = lock.Write
		}
		b.queueAs(of("job", waits))
		if ok, err := w.b.ForceRelease(t.Context(), "job", k); err != nil || !ok {
			t.Fatalf("got %v, %v", ok, err)
		}
		if lost := one[broker.Lost](a); lost.Reason != lock.LostForced {
			t.Errorf("got %v, want forced", lost.Reason)
		}
		one[broker.Granted](b)
		if ok, err := w.b.ForceRelease(t.Context(), "elsewhere", k); err != nil || ok {
			t.Errorf("of a free lock: got %v, %v", ok, err)
		}
	})
}

func TestReentrantKindsCount(t *testing.T) {
	eachKind(t, []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write}, func(w *world, k lock.Kind) {
		c, other := w.alive(), w.replica().alive()
		req := of("job", k)
		req.Holder = "h"
		var g broker.Granted
		for n := range uint32(3) {
			if g = c.takeAs(req); g.Count != n+1 {
				t.Errorf("got count %d, want %d", g.Count, n+1)
			}
		}
		if st := w.look("job"); st.Count != 3 {
			t.Errorf("the store counts %d, want 3", st.Count)
		}
		for range 2 {
			c.release(g.Hold)
			other.busy(of("job", lock.Write))
		}
		c.release(g.Hold)
		w.free("job")
		c.Release(c.id(), g.Hold)
		c.failed(lock.ErrNotHeld)
	})
}

func TestNestedHoldNeverShortensTheLease(t *testing.T) {
	eachKind(t, []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write}, func(w *world, k lock.Kind) {
		c := w.alive()
		req := of("job", k)
		req.Holder, req.Lease = "h", new(time.Minute)
		c.takeAs(req)
		req.Lease = new(time.Second)
		g := c.takeAs(req)
		c.release(g.Hold)
		if st := w.look("job"); st.TTL != time.Minute {
			t.Errorf("got remaining time %v, want a minute", st.TTL)
		}
		time.Sleep(50 * time.Second)
		c.none()
	})
}

func TestGoodbyeReleasesEveryKind(t *testing.T) {
	for _, k := range allKinds {
		inWorld(t, func(w *world) {
			c := w.alive()
			c.takeAs(of("job", k))
			c.Goodbye()
			synctest.Wait()
			w.free("job")
		})
	}
}

func TestDataLossIsToldForEveryKind(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		c := w.alive()
		g := c.takeAs(of("job", k))
		w.lose()
		time.Sleep(11 * time.Second)
		if lost := one[broker.Lost](c); lost.Reason != lock.LostData && lost.Reason != lock.LostForced {
			t.Errorf("got %v, want data loss", lost.Reason)
		}
		if again := c.takeAs(of("job", k)); again.Hold.Fence <= g.Hold.Fence {
			t.Errorf("got fence %d after %d", again.Hold.Fence, g.Hold.Fence)
		}
	})
}

// TestOwnerOfEveryHoldCanBeToldFromItsGrant computes what the store knows a hold by from what its client was told.
func TestOwnerOfEveryHoldCanBeToldFromItsGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		for _, req := range []broker.AcquireRequest{
			of("x", lock.Exclusive), holder("y", lock.Exclusive), of("f", lock.Fair), holder("r", lock.Read),
			asHolder(allOf(lock.Write, "m", "n")), allOf(lock.Exclusive, "o", "p"),
		} {
			g := c.takeAs(req)
			for _, h := range append(g.More, g.Hold) {
				name := h.Holder
				if strings.HasPrefix(name, "#") {
					name = ""
				}
				want := lock.Owner(fmt.Sprintf("%s:%s#%d", c.ID(), name, h.AcquiredBy))
				if st := w.look(h.Name); st.Owner != want || h.AcquiredBy == 0 {
					t.Errorf("%q is held by %q, want %q", h.Name, st.Owner, want)
				}
			}
		}
		// A second hold is known by the first request.
		first := c.takeAs(holder("again", lock.Exclusive))
		if again := c.takeAs(holder("again", lock.Exclusive)); again.Hold != first.Hold || again.ID == first.ID {
			t.Errorf("got %+v after %+v, want the same hold", again, first)
		}
	})
}
