package broker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func isError(got, want error) bool { return errors.Is(got, want) }

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
