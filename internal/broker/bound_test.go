package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// answerTime is that of testConfig.
const answerTime = 1500 * time.Millisecond

// late makes the store execute each acquire after a time, and answer then.
func (w *world) late(d time.Duration) {
	w.store.onAcquire(func(next func() (broker.Grant, error)) (broker.Grant, error) {
		time.Sleep(d)
		return next()
	})
	w.store.onAcquireAll(func(next func() ([]broker.Grant, error)) ([]broker.Grant, error) {
		time.Sleep(d)
		return next()
	})
}

// bounded are requests of all kinds, and for several names.
func bounded() map[string]broker.AcquireRequest {
	reqs := map[string]broker.AcquireRequest{"several": allOf(broker.Exclusive, "job", "b")}
	for k := broker.Exclusive; k <= broker.Semaphore; k++ {
		reqs[k.String()] = of("job", k)
	}
	return reqs
}

// TestABoundedRequestIsAnsweredInTimeByASilentStore has the store answer after ten seconds what is asked for. The caller
// is told at its bound that nobody knows, and what the store grants after that is given back.
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
					c.failed(broker.ErrOutcomeUnknown)
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
				one[broker.Granted](c)
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
				if all.Permits = all.Limit; req.Kind == broker.Read {
					all.Kind = broker.Write
				}
				there.alive().takeAs(all)
				c := w.alive()
				w.late(time.Second)
				req.Permits, req.Wait = all.Permits, new(100*time.Millisecond)
				c.acquire(req)
				time.Sleep(time.Second)
				events := c.events()
				n, ok := events[len(events)-1].(broker.NotGranted)
				if !ok || !errors.Is(n.Cause, broker.ErrTimedOut) {
					t.Errorf("got %#v, want that the wait ended", events)
				}
			})
		})
	}
}

// TestAUnaryCallIsAnsweredInTimeByASilentStore is the same without a session. What a caller with its own lease id may
// have taken is left for its repetition.
func TestAUnaryCallIsAnsweredInTimeByASilentStore(t *testing.T) {
	for k := broker.Exclusive; k <= broker.Semaphore; k++ {
		for _, id := range []string{"", ownID} {
			for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
				t.Run(fmt.Sprint(k, " ", id, " ", wait), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.late(10 * time.Second)
						a := <-w.ask(broker.OnceRequest{Name: "job", Kind: k, Limit: of("job", k).Limit, LeaseID: id, Wait: &wait})
						if !errors.Is(a.err, broker.ErrOutcomeUnknown) || a.after != wait+answerTime {
							t.Errorf("got %+v, want an unknown outcome after %v", a, wait+answerTime)
						}
						time.Sleep(20 * time.Second)
						if id == "" {
							w.free("job")
							return
						}
						if _, err := w.b.ReleaseOnce("job", k, id, 0); err != nil {
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
		g := c.takeAs(holder("doc", broker.Write))
		w.late(10 * time.Second)
		req := holder("doc", broker.Read)
		req.Wait = new(time.Duration)
		c.acquire(req)
		time.Sleep(answerTime)
		c.failed(broker.ErrOutcomeUnknown)
		time.Sleep(20 * time.Second)
		c.release(g.Hold)
		w.free("doc")
	})
}

// TestAHandOverIsWaitedForAtTheEndOfAWait has a release that hands over last longer than the wait of the next one.
func TestAHandOverIsWaitedForAtTheEndOfAWait(t *testing.T) {
	for _, slow := range []time.Duration{time.Second, 5 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, next := w.alive(), w.alive()
				g := c.take("job")
				next.acquire(broker.AcquireRequest{Name: "job", Wait: new(time.Second), Lease: new(time.Hour)})
				one[broker.Queued](next)
				w.store.onRelease(func(r broker.Return, next func() (broker.Returned, error)) (broker.Returned, error) {
					if r.Next != nil {
						time.Sleep(slow)
					}
					return next()
				})
				time.Sleep(900 * time.Millisecond)
				c.Release(c.id(), g.Hold)
				time.Sleep(100*time.Millisecond + answerTime)
				synctest.Wait()
				if slow == time.Second {
					one[broker.Granted](next)
					return
				}
				next.failed(broker.ErrOutcomeUnknown)
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
		req := allOf(broker.Exclusive, "a", "b", "c")
		req.Wait = new(time.Second)
		c.queueAs(req)
		time.Sleep(time.Second)
		if n := c.notGranted(broker.ErrTimedOut); n.Name != "b" {
			t.Errorf("got %+v, want b in the way", n)
		}
	})
}
