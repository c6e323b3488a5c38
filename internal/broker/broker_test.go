package broker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func isError(got, want error) bool { return errors.Is(got, want) }

func TestAFreeLockCostsOneStoreCall(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		g := c.take("job")
		if g.Count != 1 || !g.Auto || g.Hold.Fence == 0 {
			t.Errorf("got %+v, want an auto lease with a fence, held once", g)
		}
		c.release(g.Hold)
		w.free("job")
		if a, r := w.store.acquires.Load(), w.store.releases.Load(); a != 1 || r != 1 {
			t.Errorf("got %d acquires and %d releases in the store, want 1 and 1", a, r)
		}
	})
}

func TestTryOfALockHeldHereAsksNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.open(), w.open()
		g := a.take("job")
		b.acquire(request.Acquire{Name: "job", Wait: new(time.Duration(0))})
		n := b.notGranted(lock.ErrHeld)
		if want := lock.Owner(a.ID() + ":" + g.Hold.Holder); n.HeldBy != want || n.RetryAfter <= 0 {
			t.Errorf("got %+v, want the holder %q and a time", n, want)
		}
		if calls := w.store.acquires.Load(); calls != 1 {
			t.Errorf("got %d store calls, want 1", calls)
		}
	})
}

func TestTryOfALockHeldElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.replica()
		other.open().take("job")
		c := w.open()
		c.acquire(request.Acquire{Name: "job", Wait: new(time.Duration(0))})
		if n := c.notGranted(lock.ErrHeld); n.RetryAfter != 30*time.Second {
			t.Errorf("got retry after %v, want the TTL of 30s", n.RetryAfter)
		}
	})
}

func TestWaiterGetsTheLockOnRelease(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.open(), w.open()
		g := a.take("job")
		b.queue("job")
		before := w.store.acquires.Load() + w.store.releases.Load()
		a.release(g.Hold)
		if got := one[session.Granted](b); got.Hold.Fence <= g.Hold.Fence {
			t.Errorf("got fence %d after %d", got.Hold.Fence, g.Hold.Fence)
		}
		if calls := w.store.acquires.Load() + w.store.releases.Load() - before; calls != 1 {
			t.Errorf("the hand-over cost %d store calls, want 1", calls)
		}
	})
}

func TestWaitersAreGrantedInTheirOrder(t *testing.T) {
	const waiters = 1000
	inWorld(t, func(w *world) {
		first := w.alive()
		g := first.take("job")
		c := w.alive()
		for range waiters {
			c.acquire(request.Acquire{Name: "job"})
		}
		synctest.Wait()
		if got := len(c.Outbox().Take()); got != waiters {
			t.Fatalf("got %d Queued, want %d", got, waiters)
		}
		before := w.store.acquires.Load() + w.store.releases.Load()
		first.release(g.Hold)
		granted := one[session.Granted](c)
		for want := uint64(1); ; want++ {
			if granted.ID != want {
				t.Fatalf("got a grant for request %d, want %d", granted.ID, want)
			}
			time.Sleep(time.Millisecond)
			c.Release(waiters+want, granted.Hold)
			synctest.Wait()
			if want == waiters {
				break
			}
			for _, e := range c.Outbox().Take() { // Released of this one, Granted of the next
				if g, ok := e.(session.Granted); ok {
					granted = g
				}
			}
		}
		calls := w.store.acquires.Load() + w.store.releases.Load() - before
		if limit := int64(waiters * 11 / 10); calls > limit {
			t.Errorf("%d grants cost %d store calls, want at most %d", waiters, calls, limit)
		}
	})
}

func TestRequestsOfANamedHolderDoNotWaitForEachOther(t *testing.T) {
	inWorld(t, func(w *world) {
		other, c := w.alive(), w.alive()
		g := other.take("job")
		for range 3 {
			c.acquire(request.Acquire{Name: "job", Holder: "me"})
			one[session.Queued](c)
		}
		next := w.alive()
		next.queue("job")
		other.release(g.Hold)
		counts := map[uint32]bool{}
		var hold session.Hold
		for _, e := range c.events() {
			if got, ok := e.(session.Granted); ok {
				counts[got.Count] = true
				hold = got.Hold
			}
		}
		if len(counts) != 3 || w.look("job").Count != 3 {
			t.Fatalf("got counts %v, stored %d, want 1, 2 and 3", counts, w.look("job").Count)
		}
		for range 3 {
			c.release(hold)
		}
		one[session.Granted](next)
	})
}

func TestReleaseOfWhatIsNotHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.open(), w.open()
		g := a.take("job")
		b.Release(b.id(), g.Hold)
		b.failed(lock.ErrNotHeld)
		stale := g.Hold
		stale.Fence--
		a.Release(a.id(), stale)
		a.failed(lock.ErrStale)
		a.release(g.Hold)
		a.Release(a.id(), g.Hold)
		a.failed(lock.ErrNotHeld)
	})
}

func TestFixedLeaseEndsAndIsToldLost(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.alive(), w.alive()
		begin := time.Now()
		a.acquire(request.Acquire{Name: "job", Lease: new(2 * time.Second)})
		g := one[session.Granted](a)
		b.queue("job")
		time.Sleep(time.Until(g.Validity.Until))
		if lost := one[session.Lost](a); lost.Reason != lock.LostExpired {
			t.Errorf("got %v, want expired", lost.Reason)
		}
		b.none()
		time.Sleep(time.Until(begin.Add(2*time.Second + 5*time.Millisecond)))
		one[session.Granted](b)
		a.Release(a.id(), g.Hold)
		a.failed(lock.ErrNotHeld)
	})
}

func TestExtendProlongsAndNeverShortens(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.acquire(request.Acquire{Name: "job", Lease: new(2 * time.Second)})
		g := one[session.Granted](c)
		time.Sleep(time.Second)
		c.Extend(c.id(), request.Extend{Hold: g.Hold, Lease: new(10 * time.Second)})
		one[session.Extended](c)
		time.Sleep(9 * time.Second)
		c.none()
		c.Extend(c.id(), request.Extend{Hold: g.Hold, Lease: new(time.Second)})
		if e := one[session.Extended](c); time.Until(e.Validity.Until) < 800*time.Millisecond {
			t.Errorf("got %v left, want what was left before", time.Until(e.Validity.Until))
		}
		time.Sleep(time.Second)
		one[session.Lost](c)
	})
}

func TestGoodbyeReleasesAll(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		for i := range 10 {
			c.take(name(i))
		}
		c.Goodbye()
		<-c.Done()
		if c.Cause() != nil {
			t.Errorf("got cause %v, want nil", c.Cause())
		}
		for i := range 10 {
			w.free(name(i))
		}
	})
}

func TestGoodbyeStillAnswersTheReleaseBeforeIt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Release", late(time.Second))
		c := w.open()
		g := c.take("job")
		c.Release(c.id(), g.Hold)
		c.Goodbye()
		<-c.Done()
		one[session.Released](c)
	})
}

func TestBrokenStreamReleasesIfAskedTo(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.openWith(broker.OpenRequest{ReleaseOnEnd: true}), w.open()
		a.take("job")
		b.queue("job")
		a.End(errors.New("broken"))
		one[session.Granted](b)
	})
}

func TestAutoLeaseLivesWhileItsClientIsHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.take("job")
		for range 720 {
			time.Sleep(5 * time.Second)
			if ttl := w.look("job").TTL; ttl <= 0 || ttl > 30*time.Second {
				t.Fatalf("got TTL %v, want it in (0, 30s]", ttl)
			}
		}
		c.none()
	})
}

func TestSilentClientLosesItsLocksOneTTLAfterItWasHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		silent, next := w.open(), w.alive()
		silent.take("job")
		next.queue("job")
		time.Sleep(9 * time.Second)
		silent.Hear()
		heard := time.Now()
		time.Sleep(30*time.Second - time.Millisecond)
		next.none()
		time.Sleep(10 * time.Millisecond)
		one[session.Granted](next)
		if got := time.Since(heard); got > 31*time.Second {
			t.Errorf("freed after %v, want at most the TTL + 1s", got)
		}
		<-silent.Done()
		if !errors.Is(silent.Cause(), session.ErrSilent) {
			t.Errorf("got cause %v, want ErrSilent", silent.Cause())
		}
	})
}

func TestHeartbeatTellsTheSmallestValidityOfAutoLeases(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		c.Heartbeat(0, 1)
		if ack := one[session.HeartbeatAck](c); ack.SentID != 1 || !ack.Until.IsZero() {
			t.Errorf("got %+v, want no validity without leases", ack)
		}
		c.acquire(request.Acquire{Name: "fixed", Lease: new(time.Second / 2)})
		one[session.Granted](c)
		g := c.take("a")
		time.Sleep(time.Second / 10)
		c.take("b")
		c.Heartbeat(0, 2)
		if ack := one[session.HeartbeatAck](c); !ack.Until.Equal(g.Validity.Until) {
			t.Errorf("got %v, want the older lease's %v", ack.Until, g.Validity.Until)
		}
	})
}

func TestRequestIDsCannotBeRepeated(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		c.Acquire(5, request.Acquire{Name: "job", Kind: lock.Exclusive})
		one[session.Granted](c)
		c.Acquire(5, request.Acquire{Name: "other", Kind: lock.Exclusive})
		c.failed(session.ErrRepeated)
		c.Acquire(3, request.Acquire{Name: "third", Kind: lock.Exclusive})
		one[session.Granted](c)
		c.Acquire(0, request.Acquire{Name: "fourth", Kind: lock.Exclusive})
		c.failed(lock.ErrInvalid)
	})
}
