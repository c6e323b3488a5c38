package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

// What Redisson's behaviour checklist says of time: leases, waiting, renewal, losses.

func TestReadersAndWritersGetAFixedLeaseAtItsEnd(t *testing.T) {
	eachKind(t, []lock.Kind{lock.Read, lock.Write}, func(w *world, k lock.Kind) {
		a, b := w.alive(), w.replica().alive()
		other := lock.Read + lock.Write - k
		a.takeAs(leased(of("job", k), 2*time.Second))
		b.queueKind("job", other)
		time.Sleep(1990 * time.Millisecond)
		b.none()
		b.grantedWithin(60 * time.Millisecond)
	})
}

func TestTheRemainingTimeIsToldFromTheGrantToTheRelease(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		there := w.replica()
		for want, req := range map[time.Duration]broker.AcquireRequest{
			30 * time.Second: of("job", k), 7 * time.Second: leased(of("job", k), 7*time.Second),
		} {
			c := w.alive()
			g := c.takeAs(req)
			if got := there.shown().TTL; got != want {
				t.Errorf("got %v just after the grant, want %v", got, want)
			}
			time.Sleep(time.Second)
			if got := there.shown().TTL; got != want-time.Second {
				t.Errorf("got %v a second later, want %v", got, want-time.Second)
			}
			c.release(g.Hold)
			if info := there.shown(); info.Held || info.TTL != 0 {
				t.Errorf("got %+v after the release", info)
			}
		}
	})
}

func TestNestedLeasesAreNotCutByReleases(t *testing.T) {
	eachKind(t, reentrant, func(w *world, k lock.Kind) {
		c := w.alive()
		var g broker.Granted
		for range 3 {
			g = c.takeAs(leased(holder("job", k), 10*time.Second))
			time.Sleep(100 * time.Millisecond)
		}
		for range 2 {
			c.release(g.Hold)
			time.Sleep(100 * time.Millisecond)
		}
		if got := w.shown().TTL; got < 9*time.Second || got > 10*time.Second {
			t.Errorf("got %v, want 9 to 10 s", got)
		}
	})
}

func TestWhatWasAskedForInVainIsNotRenewed(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		w.store.onAcquire(func(next func() (lock.Grant, error)) (lock.Grant, error) {
			g, err := next()
			time.Sleep(time.Second) // the answer is on its way
			return g, err
		})
		c := w.alive()
		for _, req := range []broker.AcquireRequest{of("job", k), waiting(of("job", k), time.Minute)} {
			id := c.acquire(req)
			time.Sleep(500 * time.Millisecond)
			if !w.look("job").Held {
				t.Fatal("the attempt did not take the lock: the test shows nothing")
			}
			c.Cancel(c.id(), id)
			c.events()
			time.Sleep(45 * time.Second)
			w.free("job")
		}
		c.none()
	})
}

func TestALeaseIsRenewedAfterEarlierHoldsOfItsName(t *testing.T) {
	eachKind(t, reentrant, func(w *world, k lock.Kind) {
		c := w.alive()
		g := c.takeAs(holder("job", k))
		c.takeAs(holder("job", k))
		c.release(g.Hold)
		c.release(g.Hold)
		g = c.takeAs(holder("job", k))
		time.Sleep(10 * 30 * time.Second)
		c.none()
		if !w.shown().Held {
			t.Error("it is not held any more")
		}
		c.release(g.Hold)
	})
}

func TestFiftyReadersAreAllRenewed(t *testing.T) {
	inWorld(t, func(w *world) {
		worlds := []*world{w, w.replica()}
		readers := make([]*client, 50)
		holds := make([]broker.Hold, len(readers))
		for i := range readers {
			readers[i] = worlds[i%2].alive()
			holds[i] = readers[i].takeKind("job", lock.Read).Hold
		}
		time.Sleep(35 * time.Second)
		for i, c := range readers {
			c.release(holds[i])
		}
		w.free("job")
	})
}

func TestAReleaseAfterALossOfDataIsRefusedAndTheNextHoldIsRenewed(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		c := w.alive()
		for range 2 {
			g := c.takeAs(of("job", k))
			w.lose()
			c.Release(c.id(), g.Hold)
			c.failed(lock.ErrNotHeld)
			next := c.takeAs(of("job", k))
			time.Sleep(2 * 30 * time.Second)
			c.none()
			if !w.shown().Held {
				t.Error("the next hold was not renewed")
			}
			c.release(next.Hold)
		}
	})
}

func TestAWatcherIsToldOnceOfEachEndUntilItLeaves(t *testing.T) {
	for what, end := range map[string]func(w *world, c *client){
		"expired": func(_ *world, c *client) { c.takeAs(leased(of("job", lock.Exclusive), 2*time.Second)) },
		"deleted": func(w *world, c *client) { c.take("job"); w.store.Store.(*memstore.Store).Expire("job") },
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				watcher, c := w.alive(), w.replica().alive()
				c.release(c.take("job").Hold)
				watcher.watch("job")
				for range 3 {
					watcher.none()
					end(w, c)
					time.Sleep(time.Minute)
					one[broker.Lost](c)
					one[broker.Unlocked](watcher)
				}
				watcher.Unwatch(watcher.id(), "job")
				one[broker.Done](watcher)
				end(w, c)
				time.Sleep(time.Minute)
				watcher.none()
			})
		})
	}
}
