package broker_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A name may be freed by force before the replica knows of a hold: while the store is asked for it.

// freedWhileGranted frees a name by force while the store is asked for it and another one, and tries it after both were
// granted.
func (w *world) freedWhileGranted() {
	w.unverified()
	c, d := w.open(), w.open()
	w.store.on("AcquireAll", slow(time.Second))
	c.acquire(request.Acquire{Name: "a", More: []request.Item{{Name: "b", Kind: lock.Exclusive}}, List: request.Names})
	synctest.Wait()
	w.forces("b", lock.Exclusive)
	c.grantedWithin(time.Second)
	d.tried(of("b", lock.Exclusive))
}

// Of several names one is freed by force while the answer is on its way that all were granted.
func TestWhatIsGrantedLateOfSeveralNamesIsDoubted(t *testing.T) {
	inWorld(t, (*world).freedWhileGranted)
}

// A session comes with a hold that was verified just before.
func TestAHoldThatComesLateIsDoubted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		hold := c.take("job").Hold
		c.Detach(errCut)
		other, store := w.severable()
		store.on("Extend", slow(time.Second))
		store.on("Renew", slow(time.Minute))
		came := make(chan *client, 1)
		go func() {
			back, _ := other.resume(c.resumption(2, claims(true, hold)))
			came <- back
		}()
		synctest.Wait()
		other.forces("job", lock.Exclusive)
		<-came
		other.open().tried(of("job", lock.Exclusive))
	})
}

// A replica was told that a name will be freed when nobody there wanted it.
func TestAHoldThatIsNewSinceAnAnnouncementIsDoubted(t *testing.T) {
	inWorld(t, func(w *world) {
		there, way := w.severable()
		way.on("Renew", slow(time.Minute))
		way.setDeaf(true)
		_, err := w.b.AnnounceForce(w.t.Context(), "job", session.Forced{By: "alice"})
		must(w.t, err)
		c, d := there.open(), there.open()
		c.take("job")
		w.forces("job", lock.Exclusive)
		d.tried(of("job", lock.Exclusive))
	})
}

// forces frees a name by force.
func (w *world) forces(name string, k lock.Kind) {
	w.t.Helper()
	freed, err := w.b.ForceRelease(w.t.Context(), name, k)
	if must(w.t, err); !freed {
		w.t.Fatal("it was not held")
	}
}

// While a replica knows that a name is about to be freed, no try is refused by what the store said before it came.
func TestATrySinceAnAnnouncementAsksTheStoreForThoseWhoWait(t *testing.T) {
	inWorld(t, func(w *world) {
		there, way := w.severable()
		c, d, e := w.open(), there.open(), there.open()
		c.takeAs(permits(2, 2))
		d.queueAs(permits(1, 0))
		way.setDeaf(true)
		_, err := w.b.AnnounceForce(w.t.Context(), "pool", session.Forced{By: "alice"})
		must(w.t, err)
		synctest.Wait() // and it is held yet
		w.forces("pool", lock.Semaphore)
		e.try(permits(1, 0))
		one[session.Granted](d)
		one[session.Granted](e)
	})
}

// A try that waits for what the store says of others is refused when the holder is found.
func TestATryThatFollowsIsRefusedWhenTheHolderIsVerified(t *testing.T) {
	inWorld(t, func(w *world) {
		c, d, e := w.alive(), w.open(), w.open()
		c.takeKind("job", lock.Write)
		d.queueAs(of("job", lock.Read))
		w.store.on("Acquire", slow(300*time.Millisecond))
		w.store.on("Renew", slow(100*time.Millisecond))
		for range 2 { // the store is asked for who waits, and once more because of the second one
			_, err := w.b.ForceRelease(w.t.Context(), "job", lock.Read)
			must(w.t, err)
			synctest.Wait()
		}
		e.try(of("job", lock.Read))
		e.none()
		time.Sleep(time.Second)
		one[session.NotGranted](e)
	})
}

// A replica passes on what it was granted for somebody who had left. Before it hears that this is done the name is told
// to be free.
func TestATrySinceAnAnnouncementDoesNotWaitForWhatIsPassedOn(t *testing.T) {
	for _, before := range []bool{true, false} {
		inWorld(t, func(w *world) {
			there, way := w.severable()
			c, d := there.open(), there.open()
			announce := func() {
				_, err := w.b.AnnounceForce(w.t.Context(), "job", session.Forced{By: "alice"})
				must(w.t, err)
			}
			way.on("Acquire", slow(time.Second))
			way.on("Release", slow(time.Second))
			id := c.acquire(of("job", lock.Exclusive))
			synctest.Wait()
			if before {
				announce()
			}
			c.Cancel(c.id(), id)
			time.Sleep(time.Second)
			synctest.Wait() // it is released, and there that is not known yet
			if !before {
				announce()
			}
			way.onCall("Acquire", nil)
			if freed, err := w.b.ForceRelease(w.t.Context(), "job", lock.Exclusive); err != nil || freed {
				w.t.Fatalf("got %t, %v, want it to be free", freed, err)
			}
			d.tried(of("job", lock.Exclusive))
		})
	}
}

// Somebody has very many names freed. What is remembered of them is bounded, and no hold is believed because of that.
func TestDoubtsAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		const each, all = 33, 20_000 // in a shard at most, and names
		for i := range all {
			_, err := w.b.ForceRelease(w.t.Context(), name(i), lock.Exclusive)
			must(w.t, err)
		}
		if n := strings.Count(w.b.Doubts(), "\n"); n > 512*each {
			w.t.Errorf("%d are remembered", n)
		}
		w.freedWhileGranted()
		time.Sleep(2 * time.Minute)
		if left := w.b.Doubts(); left != "" {
			w.t.Errorf("left: %s", left)
		}
	})
}

// Whoever has a name freed in vain, again and again, does not have all of its readers verified each time.
func TestAForcedReleaseOfNothingVerifiesNoReaders(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		for range 50 {
			c.takeKind("job", lock.Read)
		}
		var verified atomic.Int64
		w.store.onCall("Renew", func(r call) error {
			verified.Add(int64(len(r.arg.([]lock.Renewal))))
			return r.do()
		})
		for range 10 {
			_, err := w.b.AnnounceForce(w.t.Context(), "job", session.Forced{By: "alice"})
			must(w.t, err)
			_, err = w.b.ForceRelease(w.t.Context(), "job", lock.Write)
			must(w.t, err)
			synctest.Wait()
		}
		if n := verified.Load(); n > 0 {
			w.t.Errorf("%d holds were verified", n)
		}
		w.forces("job", lock.Read)
		for range 50 {
			c.until(func(e session.Event) bool { _, is := e.(session.Lost); return is })
		}
	})
}

// Where calls of the store may take long, a name is doubted from the announcement on until it is freed.
func TestADoubtLastsAsLongAsAForcedReleaseMayTake(t *testing.T) {
	cfg := testConfig()
	cfg.AnswerTime = 30 * time.Second
	inWorldWith(t, cfg, func(w *world) {
		there, way := w.severable()
		c, d := there.alive(), there.alive()
		c.take("job")
		way.setDeaf(true)
		_, err := w.b.AnnounceForce(w.t.Context(), "job", session.Forced{By: "alice"})
		must(w.t, err)
		time.Sleep(21 * time.Second) // it was verified meanwhile
		way.on("Renew", slow(time.Minute))
		w.forces("job", lock.Exclusive)
		d.tried(of("job", lock.Exclusive))
	})
}
