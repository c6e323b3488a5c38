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

// Whoever was answered that a name is free, or that it has more room, is not refused it because of what a replica
// remembers. In these tests the replica learns of it later only, or not at all.

// try asks for a lock without waiting.
func (c *client) try(req request.Acquire) { req.Wait = new(time.Duration); c.acquire(req) }

// tried makes a try, which must be granted.
func (c *client) tried(req request.Acquire) session.Granted {
	c.t.Helper()
	c.try(req)
	return one[session.Granted](c)
}

// refused makes a try, which must be refused at once.
func (c *client) refused(req request.Acquire) session.NotGranted {
	c.t.Helper()
	c.try(req)
	return one[session.NotGranted](c)
}

// unverified has the store answer no renewals for a while, so that no lease is known to be lost.
func (w *world) unverified() { w.store.on("Renew", slow(time.Minute)) }

func TestATryAfterAForcedReleaseAsksTheStore(t *testing.T) {
	eachKind(t, []lock.Kind{lock.Exclusive, lock.Fair, lock.Write}, func(w *world, k lock.Kind) {
		w.unverified()
		c, d := w.open(), w.open()
		c.takeKind("job", k)
		d.refused(of("job", k))
		freed, err := w.b.ForceRelease(w.t.Context(), "job", k)
		if must(w.t, err); !freed {
			w.t.Fatal("it was not held")
		}
		d.tried(of("job", k))
		c.refused(of("job", k)) // and now it is held
	})
}

// Those who wait are asked for at once, too, and who tries comes after them.
func TestAfterAForcedReleaseTheNextWaiterIsAskedFor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.unverified()
		c, d, e := w.open(), w.open(), w.open()
		c.takeKind("job", lock.Write)
		d.queueAs(of("job", lock.Read))
		_, err := w.b.ForceRelease(w.t.Context(), "job", lock.Write)
		must(w.t, err)
		e.try(of("job", lock.Read))
		one[session.Granted](d)
		one[session.Granted](e)
	})
}

// A hold that the store has found since is believed again: no try costs a store call any more.
func TestAHoldIsBelievedAgainOnceItIsVerified(t *testing.T) {
	inWorld(t, func(w *world) {
		c, d := w.alive(), w.open()
		c.take("job")
		_, err := w.b.ForceRelease(w.t.Context(), "job", lock.Read)
		if !errors.Is(err, lock.ErrKindMismatch) {
			w.t.Fatalf("got %v, want it not to be freed", err)
		}
		time.Sleep(c.HeartbeatInterval() * 2)
		w.store.acquires.Store(0)
		d.refused(of("job", lock.Exclusive))
		if n := w.store.acquires.Load(); n != 0 {
			w.t.Errorf("the store was asked %d times for what is known", n)
		}
	})
}

// Whoever is granted the name next has it, also while holds are doubted: it may take it once more.
func TestWhoIsGrantedAfterAForcedReleaseMayNest(t *testing.T) {
	inWorld(t, func(w *world) {
		c, d, e := w.alive(), w.alive(), w.open()
		named := of("job", lock.Exclusive)
		named.Holder = "thread"
		c.takeAs(named)
		d.queueAs(named)
		_, err := w.b.AnnounceForce(w.t.Context(), "job", session.Forced{By: "alice"})
		must(w.t, err)
		_, err = w.b.ForceRelease(w.t.Context(), "job", lock.Exclusive)
		must(w.t, err)
		d.grantedWithin(time.Second)
		for range 3 {
			time.Sleep(100 * time.Millisecond)
			if g := d.tried(named); g.Count < 2 {
				w.t.Errorf("got %+v, want one that nests", g)
			}
			e.refused(of("job", lock.Exclusive))
		}
	})
}

// A replica that hears nothing of the release was told that it would come.
func TestATryElsewhereAfterAForcedReleaseAsksTheStore(t *testing.T) {
	for _, how := range []string{"announced", "heard"} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(w *world) {
				there, way := w.severable()
				way.on("Renew", slow(time.Minute))
				c, d := there.open(), there.open()
				c.take("job")
				if how == "announced" {
					way.setDeaf(true)
					_, err := w.b.AnnounceForce(w.t.Context(), "job", session.Forced{By: "alice"})
					must(w.t, err)
				}
				_, err := w.b.ForceRelease(w.t.Context(), "job", lock.Exclusive)
				must(w.t, err)
				synctest.Wait()
				d.tried(of("job", lock.Exclusive))
			})
		})
	}
}

// The end of a session is waited for, so that what it held is free.
func TestATryAfterTheEndOfASessionIsGranted(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		w.store.on("Release", slow(100*time.Millisecond))
		for i, at := range []*world{w, there} {
			c, d := at.open(), at.open()
			c.take(name(i))
			e, err := w.b.EndSession(w.t.Context(), c.ID(), session.Forced{By: "alice"})
			if must(w.t, err); !e.Released {
				w.t.Fatal("nobody has it")
			}
			d.tried(of(name(i), lock.Exclusive))
		}
		w.store.on("Release", slow(time.Minute))
		c := w.open()
		c.take("job")
		begun := time.Now()
		_, err := w.b.EndSession(w.t.Context(), c.ID(), session.Forced{})
		if err != nil || time.Since(begun) > 2*time.Second {
			w.t.Errorf("it took %v, %v", time.Since(begun), err)
		}
		w.store.well()
	})
}

// Where no more may wait a try is refused by who holds the name, and not for the length of the queue.
func TestATryBehindAFullQueueIsRefused(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.QueueLength = 1
	inWorldWith(t, cfg, func(w *world) {
		c, d, e := w.open(), w.open(), w.open()
		c.takeAs(permits(1, 1))
		d.queueAs(permits(1, 0))
		w.store.on("Acquire", slow(time.Second))
		_, err := w.b.SetLimit(request.SetLimit{Name: "pool", Limit: 2}) // so that the store is asked for who waits
		must(w.t, err)
		e.refused(permits(1, 0))
		w.store.well()
		d.grantedWithin(2 * time.Second)
	})
}

// A semaphore has more permits. Who waits takes its own, and a try what is left.
func TestATryAfterALimitWasRaisedAsksTheStore(t *testing.T) {
	inWorld(t, func(w *world) {
		c, d, e := w.open(), w.open(), w.open()
		c.takeAs(permits(1, 1))
		w.store.setDeaf(true)
		d.queueAs(permits(1, 0))
		for limit := uint32(2); limit <= 3; limit++ {
			_, err := w.b.SetLimit(request.SetLimit{Name: "pool", Limit: limit})
			must(w.t, err)
			if e.try(permits(1, 0)); limit == 2 {
				one[session.NotGranted](e)
				one[session.Granted](d)
				d.queueAs(permits(2, 0))
			} else { // one is left, which is too few for who waits
				one[session.NotGranted](e)
			}
		}
		_, err := w.b.SetLimit(request.SetLimit{Name: "pool", Limit: 5})
		must(w.t, err)
		e.try(permits(1, 0))
		one[session.Granted](d)
		one[session.Granted](e)
	})
}

// Permits are released by a caller without a session.
func TestATryAfterAUnaryReleaseAsksTheStore(t *testing.T) {
	inWorld(t, func(w *world) {
		d, e := w.open(), w.open()
		once := request.Once{
			Name: "pool", Kind: lock.Semaphore, Permits: 2, Limit: 2, Lease: time.Minute, LeaseID: ownID,
			Wait: new(time.Duration),
		}
		_, _, err := w.b.AcquireOnce(w.t.Context(), once)
		must(w.t, err)
		w.store.setDeaf(true)
		d.queueAs(permits(1, 2))
		_, err = w.b.ReleaseOnce(once)
		must(w.t, err)
		e.try(permits(1, 2))
		one[session.Granted](d)
		one[session.Granted](e)
	})
}

// While the store is asked for a reader who waited, another one tries.
func TestATryAfterAReleaseAsksTheStore(t *testing.T) {
	inWorld(t, func(w *world) {
		c, d, e := w.open(), w.open(), w.open()
		g := c.takeKind("job", lock.Write)
		d.queueAs(of("job", lock.Read))
		w.store.on("Acquire", slow(100*time.Millisecond))
		c.release(g.Hold)
		e.try(of("job", lock.Read))
		e.none()
		time.Sleep(time.Second)
		one[session.Granted](d)
		one[session.Granted](e)
	})
}

// While many others are granted permits one after the other, far from the store, a try that follows them is refused in
// time: it is not told that nobody knows.
func TestATryThatFollowsManyIsRefusedInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		c, d, e := w.open(), w.open(), w.open()
		g := c.takeAs(permits(20, 20))
		for range 7 {
			d.queueAs(permits(1, 0))
		}
		w.store.on("Acquire", slow(450*time.Millisecond))
		c.release(g.Hold)
		begun := time.Now()
		e.try(permits(1, 0))
		if got, is := e.await().(session.NotGranted); !is {
			w.t.Errorf("got %+v", got)
		}
		if took := time.Since(begun); took > testConfig().AnswerTime {
			w.t.Errorf("it took %v", took)
		}
		w.store.well()
	})
}
