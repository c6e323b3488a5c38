package broker_test

import (
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
