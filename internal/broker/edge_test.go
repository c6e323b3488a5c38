package broker_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func TestTheGreatestRequestIDsAreIDsLikeAllOthers(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		for _, id := range []uint64{math.MaxUint64 - 2, math.MaxUint64, math.MaxUint64 - 1} {
			c.Cancel(id, 1)
			c.failed(session.ErrNotWaiting)
			c.Cancel(id, 1)
			c.failed(session.ErrRepeated)
		}
	})
}

func TestAUnaryGrantThatComesWithTheEndOfItsCallIsUndone(t *testing.T) {
	inWorld(t, func(w *world) {
		for range 200 {
			ctx, cancel := context.WithCancel(w.t.Context())
			w.store.on("Acquire", func(next func() error) error {
				defer cancel()
				return next()
			})
			_, refused, err := w.b.AcquireOnce(ctx, request.Once{Name: "job", Kind: lock.Exclusive, Lease: time.Hour})
			if err != nil || refused == nil || !errors.Is(refused.Cause, session.ErrCancelled) {
				w.t.Fatalf("got %v, %v, want cancelled", refused, err)
			}
			time.Sleep(5 * time.Second)
			w.free("job")
		}
	})
}

func TestCloseAnswersUnaryWaiters(t *testing.T) {
	inWorld(t, func(w *world) {
		w.open().take("job")
		answered := make(chan error, 1)
		go func() {
			_, _, err := w.once(request.Once{Name: "job", Wait: new(time.Hour)})
			answered <- err
		}()
		synctest.Wait()
		must(w.t, w.b.Close(w.t.Context()))
		synctest.Wait()
		select {
		case err := <-answered:
			if !errors.Is(err, session.ErrDraining) {
				t.Errorf("got %v, want ErrDraining", err)
			}
		default:
			t.Error("the caller still waits after Close")
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		_, _, _ = w.b.AcquireOnce(ctx, request.Once{Name: "job", Kind: lock.Exclusive, Lease: time.Hour})
	})
}

func TestCloseUndoesWhatIsJustBeingTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", slow(time.Second))
		c := w.open()
		c.acquire(request.Acquire{Name: "job", Lease: new(time.Hour)})
		synctest.Wait()
		must(w.t, w.b.Close(w.t.Context()))
		w.free("job")
	})
}

func TestOperationsUnderWayAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.LocksPerSession, cfg.Limits.WaitersPerSession = 5, 5
	inWorldWith(t, cfg, func(w *world) {
		c := w.alive()
		c.takeAs(request.Acquire{Name: "job", Holder: "me"})
		w.store.inOrder("Acquire", late(time.Second))
		for range 100 {
			c.acquire(request.Acquire{Name: "job", Holder: "me"})
		}
		if events := c.events(); len(events) < 80 {
			t.Errorf("%d of 100 requests pile up", 100-len(events))
		}
	})
}

func TestAnExtensionDoesNotTellTheFenceOfAnotherHold(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.mustOnce(request.Once{Name: "job"})
		w.store.on("Raise", func(next func() error) error {
			w.store.Store.(*memstore.Store).Expire("job")
			w.mustOnce(request.Once{Name: "job", LeaseID: strings.Repeat("x", 22)})
			return next()
		})
		got, err := w.b.ExtendOnce(request.Once{
			Name: "job", Kind: lock.Exclusive, LeaseID: l.LeaseID,
			Lease: time.Minute,
		})
		if !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("got %+v, %v, want ErrNotHeld", got, err)
		}
	})
}

func TestASessionThatEndsWhileItsReleaseBeginsEndsOnce(t *testing.T) {
	cfg := testConfig()
	l := &cfg.Limits
	l.LocksPerSession, l.WaitersPerSession, l.WatchesPerSession = 2, 2, 2
	inWorldWith(t, cfg, func(w *world) {
		w.store.on("Renew", fails(lock.ErrUnavailable, 0))
		c := w.open()
		g := c.take("job")
		w.store.setDown(lock.ErrUnavailable)
		time.Sleep(2 * time.Second)
		one[session.AtRisk](c)
		w.store.setDown(nil)
		time.Sleep(2 * time.Second) // the lease could not be verified yet, so Safe is still to be told
		for range 2 + 2*2 + 2 + 1024 {
			c.Cancel(c.id(), 0)
		}
		c.Release(c.id(), g.Hold) // Safe finds no room
		<-c.Done()
		if !errors.Is(c.Cause(), session.ErrBacklog) {
			w.t.Errorf("got %v, want ErrBacklog", c.Cause())
		}
		synctest.Wait()
		w.free("job")
	})
}

func isError(got, want error) bool { return errors.Is(got, want) }

func TestHeartbeatTellsTheSmallestValidityOfAutoLeases(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		c.Heartbeat(0, 1)
		if ack := one[session.HeartbeatAck](c); ack.SentID != 1 || !ack.Until.IsZero() {
			t.Errorf("got %+v, want no validity without leases", ack)
		}
		c.takeAs(request.Acquire{Name: "fixed", Lease: new(time.Second / 2)})
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
