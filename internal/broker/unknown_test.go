package broker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// What calls of unknown outcome took for a request that has a place ends when that is told, not with the time of its
// place.
func TestARequestWithAPlaceThatMayHaveALockLeavesNothing(t *testing.T) {
	for _, k := range []lock.Kind{lock.Fair, lock.Write} {
		inWorld(t, func(w *world) {
			c := w.open()
			w.store.on("Acquire", func(next func() error) error { _ = next(); return errUnknown })
			c.acquire(of("job", k))
			time.Sleep(brief)
			c.failed(errUnknown)
			w.free("job")
		})
	}
}

// What a handoff of unknown outcome gave a waiter ends when the waiter leaves, also if it has no place: while nobody
// knows of the outcome, or after that.
func TestAWaiterLeavesThatNobodyKnowsWhetherItWasHandedTheName(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Write, lock.Fair} {
		for _, after := range []time.Duration{brief / 2, 2 * brief} {
			inWorld(t, func(w *world) {
				c, d := w.open(), w.open()
				c.acquire(of("job", k))
				g := c.awaitGrant()
				id, _ := d.queueAs(of("job", k))
				w.store.on("Acquire", func(func() error) error { return lock.ErrUnavailable })
				calls := 0
				w.store.on("Release", func(next func() error) error {
					if calls++; calls > 1 {
						return next()
					}
					_ = next()
					time.Sleep(brief)
					return errUnknown
				})
				c.Release(c.id(), g.Hold)
				time.Sleep(after)
				d.Cancel(d.id(), id)
				time.Sleep(2 * time.Second)
				w.free("job")
			})
		}
	}
}

// A writer gives up its mark, and with it what it may have, when its stream breaks: its next request has a mark of its
// own.
func TestAWriterThatMayHaveANameLeavesNothingWhenItsStreamBreaks(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Write} {
		inWorld(t, func(w *world) {
			there, way := w.severable()
			other, d := w.alive(), there.leaving()
			hold := other.takeKind("job", k).Hold
			d.queueAs(of("job", k))
			way.on("Acquire", func(next func() error) error { _ = next(); return errUnknown })
			other.release(hold)
			time.Sleep(brief)
			d.Detach(errCut)
			time.Sleep(2 * time.Second)
			w.free("job")
		})
	}
}

// A waiter that asks for itself after a handoff of unknown outcome, and is granted the name, keeps it.
func TestWhoIsGrantedAfterAHandoffOfUnknownOutcomeKeepsTheName(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Write, lock.Fair} {
		for _, executed := range []bool{true, false} {
			inWorld(t, func(w *world) {
				c, d := w.alive(), w.alive()
				c.acquire(of("job", k))
				g := c.awaitGrant()
				d.queueAs(of("job", k))
				w.store.on("Release", lostAtFirst(executed))
				c.Release(c.id(), g.Hold)
				hold := d.grantedWithin(time.Minute).Hold
				time.Sleep(20 * time.Second)
				d.none()
				if st := w.look("job"); !st.Held || st.Fence != hold.Fence {
					w.t.Errorf("%v, executed %v: %+v was told, and the store has %+v", k, executed, hold, st)
				}
			})
		}
	}
}

// lostAtFirst has the outcome of the first call be unknown, executed or not.
func lostAtFirst(executed bool) func(next func() error) error {
	calls := 0
	return func(next func() error) error {
		if calls++; calls > 1 {
			return next()
		}
		if executed {
			_ = next()
		}
		return errUnknown
	}
}

// A fair waiter whose stream broke after a handoff of unknown outcome has what it was given, or its place, when it goes
// on elsewhere: others that wait do not come first.
func TestWhoComesBackAfterAHandoffOfUnknownOutcomeIsStillNext(t *testing.T) {
	for _, executed := range []bool{true, false} {
		inWorld(t, func(w *world) {
			there, way := w.severable()
			other := w.replica()
			c, d, behind := there.alive(), there.leaving(), other.alive()
			c.acquire(of("job", lock.Fair))
			g := c.awaitGrant()
			id, _ := d.queueAs(of("job", lock.Fair))
			behind.queueAs(of("job", lock.Fair))
			way.on("Acquire", fails(lock.ErrUnavailable, 0))
			way.on("Release", lostAtFirst(executed))
			c.Release(c.id(), g.Hold)
			time.Sleep(brief)
			d.Detach(errCut)
			time.Sleep(brief)
			back, _ := other.resume(d.resumption(2, nil))
			req := of("job", lock.Fair)
			req.InsteadOf = []uint64{id}
			back.acquire(req)
			back.grantedWithin(time.Second)
			behind.none()
		})
	}
}

// A unary caller that chose its lease id hangs up while its request is under way, and releases. The outcome of the
// request was unknown, so it is made again behind the release: nobody would know of what it takes.
func TestARequestThatIsMadeAgainBehindItsReleaseLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		calls := 0
		w.store.on("Acquire", func(next func() error) error {
			if calls++; calls > 1 {
				return next()
			}
			time.Sleep(brief)
			return errUnknown
		})
		ctx, hangUp := context.WithTimeout(w.t.Context(), brief/2)
		defer hangUp()
		req := request.Once{Name: "job", Kind: lock.Exclusive, Lease: time.Hour, LeaseID: ownID, Wait: new(time.Minute)}
		_, refused, err := w.b.AcquireOnce(ctx, req)
		_, released := w.b.ReleaseOnce(req)
		if refused == nil && err == nil || !errors.Is(released, lock.ErrNotHeld) {
			w.t.Errorf("told %v, %v, and of the release %v", refused, err, released)
		}
		time.Sleep(time.Second)
		w.free("job")
	})
}

// Likewise, but a repetition was granted permits, of which some are kept: these stay.
func TestARequestThatIsMadeAgainBehindARepetitionLeavesWhatThatKeeps(t *testing.T) {
	inWorld(t, func(w *world) {
		var calls atomic.Int32
		w.store.on("Acquire", func(next func() error) error {
			if calls.Add(1) > 1 {
				return next()
			}
			time.Sleep(brief)
			return errUnknown
		})
		ctx, hangUp := context.WithTimeout(w.t.Context(), brief/2)
		defer hangUp()
		req := request.Once{
			Name: "job", Kind: lock.Semaphore, Permits: 3, Limit: 5, Lease: time.Hour, LeaseID: ownID, Wait: new(time.Minute),
		}
		_, _, _ = w.b.AcquireOnce(ctx, req)
		_, refused, err := w.b.AcquireOnce(w.t.Context(), req)
		must(w.t, err)
		if refused != nil {
			w.t.Errorf("the repetition is refused: %v", refused.Cause)
		}
		req.Keep = 1
		left, err := w.b.ReleaseOnce(req)
		must(w.t, err)
		time.Sleep(time.Second)
		if st := w.look("job"); left != 1 || !st.Held {
			w.t.Errorf("%d are left, and then the store has %+v", left, st)
		}
	})
}

// mute is a Keeper that does not tell of the end of a lease: it comes later than the release of it.
type mute struct{ broker.Keeper }

func (mute) Keep(*broker.Lease, time.Time) {}

// Nobody knows whether a hold was there until its release when the first call of that had an unknown outcome, and the
// lease was over by then.
func TestAReleaseThatBeginsAfterTheLease(t *testing.T) {
	for lease, want := range map[time.Duration]error{brief: errUnknown, time.Minute: nil} {
		inWorld(t, func(w *world) {
			log, reg := zap.NewNop(), prometheus.NewRegistry()
			dog := watchdog.New[*broker.Lease](w.store, log, reg)
			there := startKept(w.t, w.cfg, w.store, mute{dog}, dog, log, reg)
			c := there.open()
			c.acquire(request.Acquire{Name: "job", Lease: &lease})
			hold := one[session.Granted](c).Hold
			time.Sleep(belated)
			calls := 0
			w.store.on("Release", func(next func() error) error {
				calls++
				if err := next(); calls > 1 {
					return err
				}
				return errUnknown
			})
			c.Release(c.id(), hold)
			time.Sleep(time.Second)
			if want == nil {
				one[session.Released](c)
			} else {
				c.failed(want)
			}
		})
	}
}
