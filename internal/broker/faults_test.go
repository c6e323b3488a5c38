package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func TestALostReplyToAcquireIsNotNoticed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", lose(1))
		c := w.open()
		g := c.take("job")
		if st := w.look("job"); st.Fence != g.Hold.Fence || st.Count != 1 {
			t.Errorf("stored %+v, told %+v", st, g)
		}
		if calls := w.store.acquires.Load(); calls != 2 {
			t.Errorf("got %d store calls, want 2", calls)
		}
		c.release(g.Hold)
		w.free("job")
	})
}

func TestAnAcquireThatMayHaveSucceededIsUndone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", lose(2))
		c := w.open()
		c.acquire(request.Acquire{Name: "job"})
		c.failed(errUnknown)
		w.free("job")
	})
}

func TestAnAcquireExecutedLateIsUndone(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", func(next func() error) error {
			go func() { time.Sleep(500 * time.Millisecond); _ = next() }()
			return errUnknown
		})
		c := w.open()
		c.acquire(request.Acquire{Name: "job", Lease: new(time.Hour)})
		c.failed(errUnknown)
		time.Sleep(600 * time.Millisecond)
		if !w.look("job").Held {
			t.Fatal("the late attempt did not take the lock: the test shows nothing")
		}
		time.Sleep(2 * time.Second)
		w.free("job")
	})
}

func TestAHolderWithAnUnsettledOutcomeCanAskAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", lose(2))
		c := w.open()
		c.acquire(request.Acquire{Name: "job", Holder: "me"})
		c.failed(errUnknown)
		c.acquire(request.Acquire{Name: "job", Holder: "me"})
		g := one[session.Granted](c)
		time.Sleep(10 * time.Second)
		if st := w.look("job"); !st.Held || st.Fence != g.Hold.Fence {
			t.Errorf("got %+v: clearing up hit the later hold", st)
		}
	})
}

func TestAGrantWhoseTimeIsOverIsNotTold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", slow(2*time.Second))
		c := w.open()
		c.acquire(request.Acquire{Name: "job", Lease: new(time.Second)})
		time.Sleep(4 * time.Second)
		c.failed(errUnknown)
	})
}

func TestALostReplyToReleaseIsNotNoticed(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		g := c.take("job")
		w.store.on("Release", lose(1))
		c.release(g.Hold)
		w.free("job")
	})
}

func TestALostReplyToAHandOverIsNotNoticed(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.open(), w.open()
		g := a.take("job")
		b.queue("job")
		w.store.on("Release", lose(1))
		a.release(g.Hold)
		got := one[session.Granted](b)
		if st := w.look("job"); st.Fence != got.Hold.Fence || st.Owner != lock.Owner(b.ID()+":"+got.Hold.Holder) {
			t.Errorf("stored %+v, told %+v", st, got)
		}
	})
}

func TestAHandOverWithUnknownOutcomeReachesTheWaiterAllTheSame(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.open(), w.open()
		g := a.take("job")
		b.queue("job")
		w.store.on("Release", lose(3))
		a.Release(a.id(), g.Hold)
		a.failed(errUnknown)
		got := one[session.Granted](b)
		if st := w.look("job"); st.Fence != got.Hold.Fence {
			t.Errorf("stored %+v, told %+v", st, got)
		}
		time.Sleep(10 * time.Second)
		if st := w.look("job"); st.Fence != got.Hold.Fence || !st.Held {
			t.Errorf("clearing up hit the next holder: %+v", st)
		}
	})
}

func TestAReleaseGoesOnInTheBackground(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.take("job")
		w.store.setDown(lock.ErrUnavailable)
		c.Release(c.id(), g.Hold)
		c.failed(lock.ErrUnavailable)
		w.store.setDown(nil)
		time.Sleep(3 * time.Second)
		w.free("job")
	})
}

// Who hears that surely nothing was done believes that it holds the lock. It does not: the release goes on.
func TestALastReleaseThatGoesOnIsNoCertainFailure(t *testing.T) {
	for _, down := range []error{lock.ErrUnavailable, lock.ErrStoreFull} {
		for _, count := range []int{1, 2} { // the second release waits for its turn
			t.Run(fmt.Sprint(down, count), func(t *testing.T) {
				inWorld(t, func(w *world) {
					c := w.alive()
					var g session.Granted
					for range count {
						c.acquire(request.Acquire{Name: "job", Holder: "me"})
						g = one[session.Granted](c)
					}
					for range count - 1 {
						c.Release(c.id(), g.Hold)
						one[session.Released](c)
					}
					w.store.setDown(down)
					c.Release(c.id(), g.Hold)
					c.failed(errUnknown)
					c.Release(c.id(), g.Hold)
					c.failed(lock.ErrNotHeld)
					w.store.setDown(nil)
					time.Sleep(3 * time.Second)
					w.free("job")
				})
			})
		}
	}
}

func TestALateReleaseDoesNotHitTheNextHolder(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.open(), w.open()
		g := a.take("job")
		w.store.on("Release", func(next func() error) error {
			w.store.onCall("Release", nil)
			go func() { time.Sleep(3 * time.Second); _ = next() }()
			return errUnknown
		})
		a.release(g.Hold)
		got := b.take("job")
		time.Sleep(5 * time.Second)
		if st := w.look("job"); !st.Held || st.Fence != got.Hold.Fence {
			t.Errorf("got %+v, want b's hold untouched", st)
		}
	})
}

func TestCancelAtTheInstantOfTheGrant(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", slow(time.Second))
		a, b := w.open(), w.open()
		id := a.acquire(request.Acquire{Name: "job"})
		b.queue("job")
		a.Cancel(a.id(), id)
		events := a.events()
		if len(events) != 2 {
			t.Fatalf("got %#v, want NotGranted and Done", events)
		}
		if n, ok := events[0].(session.NotGranted); !ok || !errors.Is(n.Cause, session.ErrCancelled) {
			t.Errorf("got %#v, want NotGranted because cancelled", events[0])
		}
		time.Sleep(time.Second)
		one[session.Granted](b)
		a.none()
	})
}

func TestNextWaiterLeavesAtTheInstantOfItsHandOver(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.open(), w.open(), w.open()
		g := a.take("job")
		id := b.queue("job")
		c.queue("job")
		w.store.on("Release", slow(time.Second))
		a.Release(a.id(), g.Hold)
		b.Cancel(b.id(), id)
		time.Sleep(3 * time.Second)
		one[session.Released](a)
		got := one[session.Granted](c)
		if st := w.look("job"); st.Fence != got.Hold.Fence {
			t.Errorf("stored %+v, told %+v", st, got)
		}
	})
}

func TestCancelOfWhatDoesNotWait(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		c.take("job")
		c.Cancel(c.id(), 1)
		c.failed(session.ErrNotWaiting)
	})
}

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

func TestALongOutageLosesLocksAtTheEndOfTheirValidity(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.take("job")
		w.store.setDown(lock.ErrUnavailable)
		time.Sleep(time.Until(g.Validity.Until))
		events := c.events()
		if len(events) != 2 {
			t.Fatalf("got %#v, want AtRisk and Lost", events)
		}
		if l, ok := events[1].(session.Lost); !ok || l.Reason != lock.LostExpired {
			t.Errorf("got %#v, want Lost because expired", events[1])
		}
		c.acquire(request.Acquire{Name: "job"})
		c.failed(lock.ErrUnavailable)
		w.store.setDown(nil)
		time.Sleep(2 * time.Second)
		one[session.Safe](c)
		c.take("job")
	})
}

func TestWaitersOutliveAnOutage(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.alive(), w.alive()
		a.take("job")
		b.queue("job")
		w.store.setDown(lock.ErrUnavailable)
		time.Sleep(2 * time.Minute)
		b.none()
		w.store.setDown(nil)
		time.Sleep(time.Second + time.Millisecond) // until the next probe
		one[session.Granted](b)
	})
}

func TestDataLossIsToldWithinARenewalIntervalAndTheFenceGrowsOn(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.take("job")
		w.store.Store.(*memstore.Store).Lose()
		time.Sleep(10*time.Second + time.Second/2)
		if lost := one[session.Lost](c); lost.Reason != lock.LostData {
			t.Errorf("got %v, want data loss", lost.Reason)
		}
		if again := c.take("job"); again.Hold.Fence <= g.Hold.Fence {
			t.Errorf("got fence %d after %d", again.Hold.Fence, g.Hold.Fence)
		}
	})
}

func TestForceReleaseIsToldAtOnceOnAnotherReplica(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.replica().alive()
		c.take("job")
		released, err := w.b.ForceRelease(t.Context(), "job", lock.Exclusive)
		if err != nil || !released {
			t.Fatalf("got %v, %v", released, err)
		}
		if lost := one[session.Lost](c); lost.Reason != lock.LostForced {
			t.Errorf("got %v, want forced", lost.Reason)
		}
		released, err = w.b.ForceRelease(t.Context(), "job", lock.Exclusive)
		if err != nil || released {
			t.Errorf("of a free lock: got %v, %v", released, err)
		}
	})
}

func TestOtherReplicasGetTheirTurnAfterABurst(t *testing.T) {
	cfg := testConfig()
	cfg.HandoffBurst = 4
	inWorldWith(t, cfg, func(w *world) {
		here, there := w.alive(), w.replica().alive()
		g := here.take("job")
		there.queue("job")
		turns := 0
		for {
			here.acquire(request.Acquire{Name: "job"})
			here.events()
			here.Release(here.id(), g.Hold)
			events := here.events()
			if turns++; turns > 10 {
				t.Fatal("the other replica starves")
			}
			next, granted := events[0].(session.Granted)
			if !granted {
				break
			}
			g = next
		}
		one[session.Granted](there)
		if turns != 5 {
			t.Errorf("the other replica had its turn after %d, want after 4 hand-overs", turns)
		}
	})
}

func TestAClientThatDoesNotReadIsClosed(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.LocksPerSession, cfg.Limits.WaitersPerSession, cfg.Limits.WatchesPerSession = 10, 10, 10
	inWorldWith(t, cfg, func(w *world) {
		c := w.open()
		for range 3000 {
			c.acquire(request.Acquire{})
		}
		<-c.Done()
		if !errors.Is(c.Cause(), session.ErrBacklog) {
			t.Errorf("got %v, want ErrBacklog", c.Cause())
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

// TestALostLeaseThatIsTakenOnceMoreIsGivenBack has the first attempt of a request, which was not answered, executed
// after the lease that the second one got was lost.
func TestALostLeaseThatIsTakenOnceMoreIsGivenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		calls := 0
		w.store.on("Acquire", func(next func() error) error {
			if calls++; calls == 1 {
				go func() { time.Sleep(2 * time.Second); _ = next() }()
				return errUnknown
			}
			return next()
		})
		c := w.alive()
		c.acquire(request.Acquire{Name: "job", Lease: new(time.Hour)})
		one[session.Granted](c)
		time.Sleep(time.Second)
		if _, err := w.b.ForceRelease(t.Context(), "job", lock.Exclusive); err != nil {
			t.Fatal(err)
		}
		one[session.Lost](c)
		time.Sleep(1100 * time.Millisecond)
		if !w.look("job").Held {
			t.Fatal("the late attempt did not take the lock: the test shows nothing")
		}
		time.Sleep(time.Minute)
		w.free("job")
	})
}
