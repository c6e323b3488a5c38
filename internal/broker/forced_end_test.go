package broker_test

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watchdog"
)

var byAlice = session.Forced{By: "alice", Why: "it hangs"}

// ends ends a session by force through this replica, and checks that it is over when that is answered.
func (w *world) ends(c *client, released bool) inspect.Ended {
	w.t.Helper()
	e, err := w.b.EndSession(w.t.Context(), c.ID(), byAlice)
	if err != nil || !e.Ended || e.Released != released {
		w.t.Fatalf("got %+v, %v; want one that has ended, its holds released %v", e, err, released)
	}
	w.resumeErr(c.resumption(9, nil), session.ErrSessionExpired)
	return e
}

// A session ends at the replica that has it, whichever is asked; what it held is free, also if it has no stream.
func TestASessionIsEndedWhereverItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		for _, detached := range []bool{false, true} {
			c := there.openWith(session.OpenRequest{Client: session.Client{Name: "far"}, ComesBack: true})
			c.take("door")
			if detached {
				c.Detach(nil)
			}
			e := w.ends(c, true)
			if e.Was == nil || e.Was.Client.Name != "far" || e.Was.Locks != 1 || e.Answered != 2 {
				t.Errorf("detached %v: got %+v", detached, e)
			}
			w.free("door")
			if e, err := w.b.EndSession(w.t.Context(), c.ID(), byAlice); err != nil || e.Was != nil || e.Ended {
				t.Errorf("again: got %+v, %v", e, err)
			}
		}
	})
}

// It is not said to have ended before the store knows.
func TestTheEndOfASessionIsToldWhenItIsTrue(t *testing.T) {
	inWorld(t, func(w *world) {
		there, store := w.severable()
		store.on("EndSession", func(next func() error) error {
			time.Sleep(300 * time.Millisecond)
			return next()
		})
		c := there.leaving()
		c.take("door")
		w.ends(c, true)
		w.free("door")
	})
}

// A replica whose store does not answer has not ended its session. Another one may end the record.
func TestTheRecordOfASessionIsEndedByWhoeverCan(t *testing.T) {
	inWorld(t, func(w *world) {
		there, store := w.severable()
		cut := func(func() error) error { return errUnknown }
		store.on("EndSession", cut)
		c := there.leaving()
		c.take("door")
		if e := w.ends(c, false); e.Was == nil {
			t.Errorf("got %+v, want what it was", e)
		}
		store.well()
		time.Sleep(time.Second)
		w.free("door") // its replica tried on

		store.on("EndSession", cut)
		w.store.on("ForceEndSession", cut)
		c = there.leaving()
		c.take("door")
		if e, err := w.b.EndSession(w.t.Context(), c.ID(), byAlice); !errors.Is(err, lock.ErrOutcomeUnknown) || e.Ended {
			t.Errorf("nobody can: got %+v, %v", e, err)
		}
	})
}

// A session without holds is at no replica while its client moves.
func TestASessionThatIsNowhereIsEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.replica().leaving()
		synctest.Wait()
		c.Detach(errCut)
		<-c.Done()
		w.ends(c, false)
	})
}

// A session ends that is coming to another replica, whether that takes a moment or longer than anybody waits.
func TestASessionThatIsComingIsEnded(t *testing.T) {
	for what, row := range map[string]struct {
		takes    time.Duration
		released bool
	}{"soon": {300 * time.Millisecond, true}, "late": {3 * time.Second, false}} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.leaving()
				hold := c.take("job").Hold
				c.Detach(errCut)
				other, store := w.severable()
				store.on("Extend", func(next func() error) error {
					time.Sleep(row.takes)
					return next()
				})
				came := make(chan *client, 1)
				go func() {
					back, _ := other.resume(c.resumption(2, claims(true, hold)))
					came <- back
				}()
				synctest.Wait()
				w.ends(c, row.released)
				back := <-came
				<-back.Done()
				if !errors.Is(back.Cause(), session.ErrSessionExpired) {
					t.Errorf("it ended with %v", back.Cause())
				}
				w.free("job")
				w.resumeErr(c.resumption(3, nil), session.ErrSessionExpired)
			})
		})
	}
}

// A replica that does not answer may have the session. It is not said to have ended, and ends when its replica prolongs
// the record, for however long that was not done.
func TestASessionOfAReplicaThatDoesNotAnswerEndsLater(t *testing.T) {
	for _, ttl := range []time.Duration{0, time.Hour} {
		cfg := testConfig()
		cfg.Session.MaxTTL = max(cfg.Session.MaxTTL, ttl)
		inWorldWith(t, cfg, func(w *world) {
			c := w.openWith(session.OpenRequest{ComesBack: true, TTL: ttl})
			c.take("job")
			defer c.beats()()
			lonely := startOn(w.t, cfg, silentStore{w.store})
			e, err := lonely.b.EndSession(w.t.Context(), c.ID(), byAlice)
			if err != nil || e.Ended || e.Answered != 1 || e.Asked != 2 {
				t.Errorf("got %+v, %v; want that it is not known", e, err)
			}
			w.replica().resumeErr(c.resumption(2, nil), session.ErrSessionExpired)
			time.Sleep(c.TTL())
			if !errors.Is(c.Cause(), session.ErrSessionExpired) {
				t.Errorf("it goes on: %v", c.Cause())
			}
			synctest.Wait()
			w.free("job")
			deaf := startOn(w.t, cfg, unread{w.store})
			if e, err := deaf.b.EndSession(w.t.Context(), "x", byAlice); !errors.Is(err, lock.ErrOutcomeUnknown) || e.Ended {
				t.Errorf("others cannot be asked: got %+v, %v", e, err)
			}
		})
	}
}

// interrupted is a Keeper with which something happens once while a lease begins.
type interrupted struct {
	*watchdog.Watchdog[*broker.Lease]
	by func()
}

func (k *interrupted) Keep(l *broker.Lease, until time.Time) {
	k.Watchdog.Keep(l, until)
	if by := k.by; by != nil {
		k.by = nil
		by()
	}
}

// A session ends in the middle of coming: also what it had not brought yet is released when that is said.
func TestASessionThatEndsWhileItComesReleasesAll(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		holds := []session.Hold{c.take(name(0)).Hold, c.take(name(1)).Hold, c.take(name(2)).Hold}
		c.Detach(errCut)
		log, reg := zap.NewNop(), prometheus.NewRegistry()
		dog := watchdog.New[*broker.Lease](w.store, log, reg)
		keeper := &interrupted{Watchdog: dog}
		other := startKept(w.t, w.cfg, w.store, keeper, dog, log, reg)
		over := make(chan inspect.Ended, 1)
		keeper.by = func() {
			go func() {
				e, err := w.b.EndSession(w.t.Context(), c.ID(), byAlice)
				must(w.t, err)
				over <- e
			}()
			for len(other.b.Sessions("", 10)) > 0 {
				runtime.Gosched()
			}
		}
		back, _ := other.resume(c.resumption(2, claims(true, holds...)))
		if e := <-over; !e.Released {
			t.Errorf("got %+v, want that all is released", e)
		}
		for _, h := range holds {
			w.free(h.Name)
		}
		<-back.Done()
		if r := back.Residue(); r != "" {
			t.Errorf("it keeps %s", r)
		}
	})
}
