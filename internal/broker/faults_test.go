package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func TestAShortOutageIsToldAndNothingIsLost(t *testing.T) {
	inWorld(t, func(w *world) {
		c, idle := w.alive(), w.alive()
		g := c.take("job")
		time.Sleep(5 * time.Second)
		w.store.setDown(lock.ErrUnavailable)
		time.Sleep(2 * time.Second)
		if risk := one[session.AtRisk](c); risk.Validity.Until.Before(time.Now()) {
			t.Errorf("at risk until %v, which is over", risk.Validity.Until)
		}
		if w.b.Ready() == nil {
			t.Error("the broker says it is ready")
		}
		time.Sleep(3 * time.Second)
		w.store.setDown(nil)
		time.Sleep(2 * time.Second)
		one[session.Safe](c)
		idle.none()
		time.Sleep(time.Minute)
		c.none()
		if st := w.look("job"); st.Fence != g.Hold.Fence || !st.Held {
			t.Errorf("got %+v, want it held on", st)
		}
	})
}

func TestLimitsAreKept(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.LocksPerSession, cfg.Limits.WaitersPerSession = 3, 2
	cfg.Limits.WatchesPerSession, cfg.Limits.Sessions, cfg.Limits.QueueLength = 1, 3, 2
	inWorldWith(t, cfg, func(w *world) {
		c, d, e := w.open(), w.open(), w.open()
		if _, err := w.b.Open(broker.OpenRequest{}); !errors.Is(err, session.ErrQuota) {
			t.Errorf("a fourth session: got %v", err)
		}
		for i := range 3 {
			c.take(name(i))
		}
		c.acquire(request.Acquire{Name: "more"})
		c.failed(session.ErrQuota)
		d.queue(name(0))
		d.queue(name(0))
		d.acquire(request.Acquire{Name: name(1)})
		d.failed(session.ErrQuota)
		e.acquire(request.Acquire{Name: name(0)})
		e.failed(session.ErrQuota)
		d.Watch(d.id(), "a")
		one[session.Done](d)
		d.Watch(d.id(), "a")
		one[session.Done](d)
		d.Watch(d.id(), "b")
		d.failed(session.ErrQuota)
	})
}

// TestAClientThatDoesNotReadIsClosedWhenItsPositionIsTooMuch has the outbox run full by what a waiter is told in the
// middle of being refused.
func TestAClientThatDoesNotReadIsClosedWhenItsPositionIsTooMuch(t *testing.T) {
	cfg := testConfig()
	limits := &cfg.Limits
	limits.LocksPerSession, limits.WaitersPerSession, limits.WatchesPerSession = 20, 10, 10
	for _, req := range []request.Acquire{
		of("job", lock.Exclusive), of("job", lock.Fair), of("job", lock.Write), of("job", lock.Semaphore),
		allOf(lock.Exclusive, "other", "job"),
	} {
		inWorldWith(t, cfg, func(w *world) {
			w.replica().alive().takeAs(of("job", req.Kind))
			c := w.open()
			for range limits.LocksPerSession + 2*limits.WaitersPerSession + limits.WatchesPerSession + 1024 {
				c.Cancel(c.id(), 0)
			}
			c.acquire(req)
			<-c.Done()
			if !errors.Is(c.Cause(), session.ErrBacklog) {
				t.Errorf("%v: got %v, want ErrBacklog", req.Kind, c.Cause())
			}
			time.Sleep(time.Second)
			if r := c.Residue() + w.b.Residue(); r != "" {
				t.Errorf("%v: left: %s", req.Kind, r)
			}
		})
	}
}
