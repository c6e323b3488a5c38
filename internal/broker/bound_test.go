package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// answerTime is that of testConfig.
const answerTime = 1500 * time.Millisecond

// late makes the store execute each acquire after a time, and answer then.
func (w *world) late(d time.Duration) {
	w.store.on("Acquire", late(d))
	w.store.on("AcquireAll", late(d))
}

// bounded are requests of all kinds, and for several names.
func bounded() map[string]request.Acquire {
	reqs := map[string]request.Acquire{"several": allOf(lock.Exclusive, "job", "b")}
	for k := lock.Exclusive; k <= lock.Semaphore; k++ {
		reqs[k.String()] = of("job", k)
	}
	return reqs
}

// TestABoundedRequestIsAnsweredInTimeByASilentStore has the store answer after ten seconds what is asked for. The
// caller is told at its bound that nobody knows, and what the store grants after that is given back.
func TestABoundedRequestIsAnsweredInTimeByASilentStore(t *testing.T) {
	for what, req := range bounded() {
		for _, wait := range []time.Duration{0, 100 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprint(what, " ", wait), func(t *testing.T) {
				inWorld(t, func(w *world) {
					c := w.alive()
					w.late(10 * time.Second)
					req.Wait, req.Lease = &wait, new(time.Hour)
					c.acquire(req)
					time.Sleep(wait + answerTime - time.Millisecond)
					c.none()
					time.Sleep(time.Millisecond)
					c.failed(lock.ErrOutcomeUnknown)
					time.Sleep(20 * time.Second)
					c.none()
					w.free("job")
					w.free("b")
				})
			})
		}
	}
}

// TestABoundedRequestIsGrantedByASlowStore has the store answer late, but in time.
func TestABoundedRequestIsGrantedByASlowStore(t *testing.T) {
	for what, req := range bounded() {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.alive()
				w.late(time.Second)
				req.Wait = new(100 * time.Millisecond)
				c.acquire(req)
				time.Sleep(time.Second)
				one[session.Granted](c)
				time.Sleep(time.Minute)
				c.none()
			})
		})
	}
}

// TestABoundedWaitIsOverWhenItsSlowAttemptIsRefused has the last attempt of a request be refused after its wait.
func TestABoundedWaitIsOverWhenItsSlowAttemptIsRefused(t *testing.T) {
	for what, req := range bounded() {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				there := w.replica()
				all := req
				if all.Permits = all.Limit; req.Kind == lock.Read {
					all.Kind = lock.Write
				}
				there.alive().takeAs(all)
				c := w.alive()
				w.late(time.Second)
				req.Permits, req.Wait = all.Permits, new(100*time.Millisecond)
				c.acquire(req)
				time.Sleep(time.Second)
				events := c.events()
				n, ok := events[len(events)-1].(session.NotGranted)
				if !ok || !errors.Is(n.Cause, session.ErrTimedOut) {
					t.Errorf("got %#v, want that the wait ended", events)
				}
			})
		})
	}
}

// TestAUnaryCallIsAnsweredInTimeByASilentStore is the same without a session. What a caller with its own lease id may
// have taken is left for its repetition.
func TestAUnaryCallIsAnsweredInTimeByASilentStore(t *testing.T) {
	for k := lock.Exclusive; k <= lock.Semaphore; k++ {
		for _, id := range []string{"", ownID} {
			for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
				t.Run(fmt.Sprint(k, " ", id, " ", wait), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.late(10 * time.Second)
						a := <-w.ask(request.Once{Name: "job", Kind: k, Limit: of("job", k).Limit, LeaseID: id, Wait: &wait})
						if !errors.Is(a.err, lock.ErrOutcomeUnknown) || a.after != wait+answerTime {
							t.Errorf("got %+v, want an unknown outcome after %v", a, wait+answerTime)
						}
						time.Sleep(20 * time.Second)
						if id == "" {
							w.free("job")
							return
						}
						if _, err := w.b.ReleaseOnce(request.ReleaseOnce{
							Name: "job", Kind: k, LeaseID: id,
						}); err != nil {
							t.Error(err)
						}
						w.free("job")
					})
				})
			}
		}
	}
}

// TestATryBesideAnotherHoldIsAnsweredInTime has a holder that writes try to read as well.
func TestATryBesideAnotherHoldIsAnsweredInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.takeAs(holder("doc", lock.Write))
		w.late(10 * time.Second)
		req := holder("doc", lock.Read)
		req.Wait = new(time.Duration)
		c.acquire(req)
		time.Sleep(answerTime)
		c.failed(lock.ErrOutcomeUnknown)
		time.Sleep(20 * time.Second)
		c.release(g.Hold)
		w.free("doc")
	})
}

// TestANestedRequestIsAnsweredInTimeByASilentStore has a holder ask once more for what it has. What the store does
// after the answer is undone, and later holds and releases count right.
func TestANestedRequestIsAnsweredInTimeByASilentStore(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write} {
		for _, wait := range []time.Duration{0, 100 * time.Millisecond, 3 * time.Second} {
			t.Run(fmt.Sprint(k, " ", wait), func(t *testing.T) {
				inWorld(t, func(w *world) {
					c := w.alive()
					g := c.takeAs(holder("job", k))
					w.late(10 * time.Second)
					req := holder("job", k)
					req.Wait = &wait
					c.acquire(req)
					time.Sleep(wait + answerTime - time.Millisecond)
					c.none()
					time.Sleep(time.Millisecond)
					c.failed(lock.ErrOutcomeUnknown)
					time.Sleep(20 * time.Second)
					c.none()
					w.counted("job", 1)
					w.store.onCall("Acquire", nil)
					if again := c.takeAs(req); again.Count != 2 {
						t.Errorf("got count %d, want 2", again.Count)
					}
					w.counted("job", 2)
					for _, want := range []uint32{1, 0} {
						c.Release(c.id(), g.Hold)
						if r := one[session.Released](c); r.Remaining != want {
							t.Errorf("%d remain, want %d", r.Remaining, want)
						}
					}
					w.free("job")
				})
			})
		}
	}
}

// counted checks how often the only holder of a name holds it in the store.
func (w *world) counted(name string, want uint32) {
	w.t.Helper()
	if st := w.look(name); !st.Held || st.Count != want {
		w.t.Errorf("got %+v, want count %d", st, want)
	}
}

// TestANestedRequestBesideAnotherOneIsAnsweredInTime has them wait for each other.
func TestANestedRequestBesideAnotherOneIsAnsweredInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.takeAs(holder("job", lock.Exclusive))
		w.late(10 * time.Second)
		req := holder("job", lock.Exclusive)
		c.acquire(req) // waits without a bound
		req.Wait = new(time.Duration)
		c.acquire(req)
		time.Sleep(answerTime)
		c.failed(lock.ErrUnavailable) // surely not done
		c.Release(c.id(), g.Hold)
		c.none()
		c.Goodbye()
		time.Sleep(20 * time.Second)
		w.free("job")
	})
}

// TestAnUnknownNestedHoldDoesNotProlongTheLease loses the answer to a nested request for an hour of one who has a
// second.
func TestAnUnknownNestedHoldDoesNotProlongTheLease(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		req := holder("job", lock.Exclusive)
		req.Lease = new(5 * time.Second)
		c.takeAs(req)
		w.late(2 * time.Second)
		req.Lease, req.Wait = new(time.Hour), new(time.Duration)
		c.acquire(req)
		time.Sleep(answerTime)
		c.failed(lock.ErrOutcomeUnknown)
		time.Sleep(10 * time.Second)
		one[session.Lost](c)
		w.free("job")
	})
}

// TestARequestThatBecomesNestedKeepsItsBound has a holder ask twice for what is free by then.
func TestARequestThatBecomesNestedKeepsItsBound(t *testing.T) {
	inWorld(t, func(w *world) {
		other, c := w.alive(), w.alive()
		g := other.take("job")
		first, second := holder("job", lock.Exclusive), holder("job", lock.Exclusive)
		second.Wait = new(2 * time.Second)
		c.queueAs(first)
		c.queueAs(second)
		time.Sleep(time.Second)
		w.late(10 * time.Second)
		other.release(g.Hold)
		one[session.Granted](c)
		time.Sleep(time.Second + answerTime - time.Millisecond)
		c.none()
		time.Sleep(time.Millisecond)
		c.failed(lock.ErrOutcomeUnknown)
	})
}

// TestAReleaseDoesNotWaitForAllThatWasAskedBefore has a hundred extensions and nested requests under way for one lease
// while the store is silent for a second at each call.
func TestAReleaseDoesNotWaitForAllThatWasAskedBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		req := holder("job", lock.Exclusive)
		req.Lease = new(time.Hour)
		g := c.takeAs(req)
		for _, verb := range []string{"Acquire", "Extend", "Release"} {
			w.store.on(verb, func(func() error) error { time.Sleep(time.Second); return errUnknown })
		}
		for range 50 {
			c.Extend(c.id(), request.Extend{Hold: g.Hold, Lease: new(time.Hour)})
			c.acquire(req)
		}
		c.Release(c.id(), g.Hold)
		time.Sleep(answerTime + 6*time.Second)
		events := c.events()
		if len(events) != 101 {
			t.Fatalf("got %d answers, want 101", len(events))
		}
		if f, ok := events[100].(session.Failed); !ok || !errors.Is(f.Err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %#v, want an unknown outcome", events[100])
		}
		w.store.well()
		time.Sleep(20 * time.Second)
		w.free("job")
	})
}

// TestAHandOverIsWaitedForAtTheEndOfAWait has a release that hands over last longer than the wait of the next one.
func TestAHandOverIsWaitedForAtTheEndOfAWait(t *testing.T) {
	for _, slow := range []time.Duration{time.Second, 5 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, next := w.alive(), w.alive()
				g := c.take("job")
				next.acquire(request.Acquire{Name: "job", Wait: new(time.Second), Lease: new(time.Hour)})
				one[session.Queued](next)
				w.store.onCall("Release", func(c call) error {
					if c.arg.(lock.Return).Next != nil {
						time.Sleep(slow)
					}
					return c.do()
				})
				time.Sleep(900 * time.Millisecond)
				c.Release(c.id(), g.Hold)
				time.Sleep(100*time.Millisecond + answerTime)
				synctest.Wait()
				if slow == time.Second {
					one[session.Granted](next)
					return
				}
				next.failed(lock.ErrOutcomeUnknown)
				time.Sleep(10 * time.Second)
				w.free("job")
			})
		})
	}
}

// TestATimedOutRequestForSeveralNamesTheOneInTheWay waits for the second of three.
func TestATimedOutRequestForSeveralNamesTheOneInTheWay(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		w.replica().alive().take("b")
		req := allOf(lock.Exclusive, "a", "b", "c")
		req.Wait = new(time.Second)
		c.queueAs(req)
		time.Sleep(time.Second)
		if n := c.notGranted(session.ErrTimedOut); n.Name != "b" {
			t.Errorf("got %+v, want b in the way", n)
		}
	})
}
