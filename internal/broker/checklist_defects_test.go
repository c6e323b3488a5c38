package broker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// What Redisson 4.x does not do as its users expect, and lockd does.

func TestATryIsAnsweredAtOnce(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		a, near, far := w.alive(), w.alive(), w.replica().alive()
		begin := time.Now()
		a.takeAs(of("job", k))
		near.busy(rival("job", k))
		far.busy(rival("job", k))
		far.takeAs(waiting(of("free", k), 0))
		if d := time.Since(begin); d > 0 {
			t.Errorf("took %v", d)
		}
	})
}

func TestAnAttemptThatFailsLeavesNoHoldOfAnyKind(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		for _, req := range []broker.AcquireRequest{of("job", k), leased(of("job", k), time.Hour)} {
			w.store.onAcquire(lose[lock.Grant](2))
			c := w.alive()
			c.refused(req, lock.ErrOutcomeUnknown)
			time.Sleep(5 * time.Second)
			w.free("job")
			w.replica().alive().takeAs(leased(rival("job", k), time.Second))
			time.Sleep(2 * time.Second)
		}
	})
}

func TestSeveralThatWaitForLongGetTheLeaseTheyAskedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.alive(), w.replica().alive()
		names := []string{"a", "b"}
		hold := a.take(names[0]).Hold
		b.queueAs(leased(allOf(lock.Exclusive, names...), 2*time.Second))
		for i := range 10 { // there is always one in the way, and never the same
			time.Sleep(time.Second)
			next := a.take(names[(i+1)%2]).Hold
			a.release(hold)
			b.none()
			hold = next
		}
		a.release(hold)
		g := one[broker.Granted](b)
		for _, h := range append(g.More, g.Hold) {
			if got := w.look(h.Name).TTL; got != 2*time.Second {
				t.Errorf("the lease of %q is %v, want 2 s", h.Name, got)
			}
		}
	})
}

func TestAWriteHoldIsRenewedAfterItsHolderStoppedReading(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		write := c.takeAs(holder("job", lock.Write))
		for range 3 {
			c.release(c.takeAs(holder("job", lock.Read)).Hold)
			time.Sleep(5 * time.Minute)
			c.none()
		}
		c.release(write.Hold)
		w.free("job")
	})
}

// renewals is a Store that counts the calls of Renew.
type renewals struct {
	lock.Store
	n atomic.Int64
}

func (r *renewals) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	r.n.Add(1)
	r.Store.Renew(ctx, rs, done)
}

func TestShortHoldsDoNotMultiplyRenewals(t *testing.T) {
	after := func(short int) (calls int64) {
		inWorld(t, func(w *world) {
			counted := &renewals{Store: w.store}
			c := start(w.t, testConfig(), &faults{Store: counted}).alive()
			for range short {
				c.release(c.take("job").Hold)
				time.Sleep(50 * time.Millisecond)
			}
			c.take("job")
			time.Sleep(20 * time.Second)
			counted.n.Store(0)
			time.Sleep(5 * time.Minute)
			c.none()
			calls = counted.n.Load()
		})
		return calls
	}
	if none, many := after(0), after(400); many > none*5/4 {
		t.Errorf("%d renewals in 5 min after 400 short holds, %d without them", many, none)
	}
}

func TestNobodyAsksBusilyBehindADeadFairWaiter(t *testing.T) {
	inWorld(t, func(w *world) {
		dead, deadStore := w.severable()
		holder, there := w.alive(), w.replica()
		g := holder.takeKind("job", lock.Fair)
		dead.alive().queueKind("job", lock.Fair)
		first := there.alive()
		first.queueKind("job", lock.Fair)
		for range 20 {
			there.alive().queueKind("job", lock.Fair)
		}
		deadStore.setDown(lock.ErrUnavailable)
		holder.release(g.Hold) // the lock is free, and the next one is dead
		before := w.store.acquires.Load()
		begin := time.Now()
		first.grantedWithin(9 * time.Second)
		if calls, d := w.store.acquires.Load()-before, time.Since(begin); calls > 20 || d < time.Second {
			t.Errorf("%d attempts were made in %v", calls, d)
		}
	})
}

func TestEachOfSeveralCanBeLost(t *testing.T) {
	for _, lost := range []string{"a", "b", "c"} {
		inWorld(t, func(w *world) {
			c := w.alive()
			g := c.takeAs(allOf(lock.Exclusive, "a", "b", "c"))
			if ok, err := w.b.ForceRelease(w.t.Context(), lost, lock.Exclusive); err != nil || !ok {
				t.Fatal(ok, err)
			}
			if got := one[broker.Lost](c).Hold.Name; got != lost {
				t.Errorf("got %q lost, want %q", got, lost)
			}
			for _, h := range append(g.More, g.Hold) {
				if h.Name != lost {
					c.release(h)
				}
			}
		})
	}
}
