package broker_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// The tests in the files checklist*_test.go hold lockd to Redisson's behaviour checklist, with the checklist's own
// numbers. docs/redisson-checklist.md says which test is for which line.

// reentrant are the kinds that a named holder can hold several times.
var reentrant = []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write}

// rival is a request that cannot be granted while another one holds a name with this kind.
func rival(name string, k lock.Kind) broker.AcquireRequest {
	if k == lock.Read {
		k = lock.Write
	}
	return of(name, k)
}

func leased(req broker.AcquireRequest, d time.Duration) broker.AcquireRequest {
	req.Lease = &d
	return req
}

func waiting(req broker.AcquireRequest, d time.Duration) broker.AcquireRequest {
	req.Wait = &d
	return req
}

// shown is what a replica tells of "job".
func (w *world) shown() broker.LockInfo {
	w.t.Helper()
	info, err := w.b.Lock(w.t.Context(), "job")
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

func TestALockIsShownHeldFromItsGrantToItsRelease(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		c, there := w.alive(), w.replica()
		for range 100 {
			g := c.takeAs(of("job", k))
			if !w.shown().Held || !there.shown().Held {
				t.Fatal("a lock that was granted is shown free")
			}
			c.release(g.Hold)
			if w.shown().Held || there.shown().Held {
				t.Fatal("a lock that was released is shown held")
			}
		}
	})
}

func TestTheHoldCountGoesUpAndDown(t *testing.T) {
	eachKind(t, reentrant, func(w *world, k lock.Kind) {
		c, other := w.alive(), w.replica().alive()
		count := func(want uint32) {
			if got := w.shown().Count; got != want {
				t.Errorf("got hold count %d, want %d", got, want)
			}
			if want > 0 {
				other.busy(rival("job", k))
			}
		}
		count(0)
		first := c.takeAs(holder("job", k))
		count(1)
		second := c.takeAs(holder("job", k))
		count(2)
		c.release(second.Hold)
		count(1)
		c.release(first.Hold)
		count(0)
		other.takeAs(rival("job", k))
	})
}

func TestOnlyTheOwnerIsShownAsTheHolder(t *testing.T) {
	eachKind(t, reentrant, func(w *world, k lock.Kind) {
		a, there := w.alive(), w.replica()
		b := there.alive()
		belongs := func(want *client) {
			for _, c := range []*client{a, b} {
				if got := strings.HasPrefix(string(there.shown().Owner), c.ID()+":"); got != (c == want) {
					t.Errorf("it is shown as the holder: %v", got)
				}
			}
		}
		belongs(nil)
		g := a.takeAs(of("job", k))
		belongs(a)
		b.busy(rival("job", k))
		belongs(a)
		a.release(g.Hold)
		belongs(nil)
		b.takeAs(of("job", k))
		belongs(b)
	})
}

func TestAReleaseByOthersIsRefusedAndChangesNothing(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		a, b, c := w.alive(), w.alive(), w.replica().alive()
		g := a.takeAs(of("job", k))
		before := w.look("job")
		for _, other := range []*client{b, c} {
			other.Release(other.id(), g.Hold)
			other.failed(lock.ErrNotHeld)
		}
		if after := w.look("job"); after != before {
			t.Errorf("got %+v, want it as it was, %+v", after, before)
		}
		a.release(g.Hold)
	})
}

func TestAReleaseAfterTheEndOfTheLeaseIsRefused(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		late, other := w.alive(), w.replica().alive()
		g := late.takeAs(leased(of("job", k), time.Second))
		var h broker.Granted
		if k == lock.Read {
			h = other.takeAs(leased(of("job", k), 10*time.Second))
		}
		time.Sleep(1100 * time.Millisecond)
		one[broker.Lost](late)
		late.Release(late.id(), g.Hold)
		late.failed(lock.ErrNotHeld)
		if k == lock.Read {
			other.release(h.Hold) // it has a lease of its own
		}
		w.free("job")
	})
}

// visits counts what is done with a lock, in a way that loses visits if two are there at once. No mutex guards it but
// the lock, so the race detector looks on, too.
type visits int

func (v *visits) come(stay time.Duration) {
	n := *v
	time.Sleep(stay)
	*v = n + 1
}

// hold waits for a lock; ok is false if it cannot be had.
func (c *client) hold(req broker.AcquireRequest) (g broker.Granted, ok bool) {
	c.acquire(req)
	for {
		<-c.Outbox().Wake()
		for _, e := range c.Outbox().Take() {
			switch e := e.(type) {
			case broker.Granted:
				return e, true
			case broker.NotGranted, broker.Failed, broker.Lost:
				c.t.Errorf("got %#v, want a grant", e)
				return g, false
			}
		}
	}
}

// giveBack releases a lock and waits for the answer.
func (c *client) giveBack(h broker.Hold) (ok bool) {
	c.Release(c.id(), h)
	for {
		<-c.Outbox().Wake()
		for _, e := range c.Outbox().Take() {
			if _, ok := e.(broker.Released); !ok {
				c.t.Errorf("got %#v, want it released", e)
			}
			return true
		}
	}
}

// visit holds a lock for some time, again and again.
func (c *client) visit(req broker.AcquireRequest, v *visits, times int, stay time.Duration) {
	for range times {
		g, ok := c.hold(req)
		if !ok {
			return
		}
		v.come(stay)
		c.giveBack(g.Hold)
	}
}

func TestManyWorkersAllComeThroughOneByOne(t *testing.T) {
	for _, crowd := range []struct {
		name           string
		clients, times int
	}{{"a hundred clients once", 100, 1}, {"sixteen clients a hundred times", 16, 100}} {
		t.Run(crowd.name, func(t *testing.T) {
			eachKind(t, alone, func(w *world, k lock.Kind) {
				worlds := []*world{w, w.replica()}
				var v visits
				var wg sync.WaitGroup
				for i := range crowd.clients {
					c := worlds[i%2].alive()
					wg.Go(func() { c.visit(of("job", k), &v, crowd.times, 10*time.Millisecond) })
				}
				wg.Wait()
				if want := crowd.clients * crowd.times; int(v) != want {
					t.Errorf("%d visits are left of %d", v, want)
				}
			})
		})
	}
}

func TestFifteenWorkersOfOneClientComeThroughOneByOne(t *testing.T) {
	eachKind(t, alone, func(w *world, k lock.Kind) {
		const workers = 15
		c := w.alive()
		for range workers {
			c.acquire(of("job", k))
		}
		var v visits
		var wg sync.WaitGroup
		for released := 0; released < workers; {
			<-c.Outbox().Wake()
			for _, e := range c.Outbox().Take() {
				switch e := e.(type) {
				case broker.Granted:
					wg.Go(func() {
						v.come(10 * time.Millisecond)
						c.Release(100+e.ID, e.Hold)
					})
				case broker.Released:
					released++
				case broker.Queued:
				default:
					t.Fatalf("got %#v", e)
				}
			}
		}
		wg.Wait()
		if int(v) != workers {
			t.Errorf("%d visits are left of %d", v, workers)
		}
	})
}

// registry is a Keeper that remembers what it keeps.
type registry struct {
	broker.Keeper
	mu   sync.Mutex // guards the field below
	kept map[*broker.Lease]bool
}

func (r *registry) Keep(l *broker.Lease, until time.Time) {
	r.mu.Lock()
	r.kept[l] = true
	r.mu.Unlock()
	r.Keeper.Keep(l, until)
}

func (r *registry) Drop(l *broker.Lease) {
	r.mu.Lock()
	delete(r.kept, l)
	r.mu.Unlock()
	r.Keeper.Drop(l)
}

func (r *registry) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.kept)
}

// registered is a replica that tells what its Keeper keeps.
func (w *world) registered() (*world, *registry) {
	reg := prometheus.NewRegistry()
	dog := watchdog.New[*broker.Lease](w.store, zap.NewNop(), reg)
	kept := &registry{Keeper: dog, kept: make(map[*broker.Lease]bool)}
	there := &world{t: w.t, store: w.store, b: broker.New(testConfig(), w.store, kept, zap.NewNop(), reg)}
	w.t.Cleanup(func() {
		if err := there.b.Close(context.Background()); err != nil {
			w.t.Error(err)
		}
		dog.Close()
	})
	return there, kept
}

func TestTheWatchdogKeepsExactlyWhatIsHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		there, kept := w.registered()
		var wg sync.WaitGroup
		var granted [16]int
		for i := range granted {
			c := there.open() // no time passes
			wg.Go(func() {
				for range 10_000 {
					c.acquire(waiting(of("job", lock.Exclusive), 0))
					<-c.Outbox().Wake()
					g, ok := c.Outbox().Take()[0].(broker.Granted)
					if !ok {
						continue
					}
					granted[i]++
					if n := kept.size(); n != 1 {
						t.Errorf("%d leases are kept while one lock is held", n)
					}
					c.giveBack(g.Hold)
				}
			})
		}
		wg.Wait()
		total := 0
		for _, n := range granted {
			total += n
		}
		if n := kept.size(); n != 0 || total < 100 {
			t.Errorf("%d leases are kept after %d grants and releases", n, total)
		}
		last := there.alive()
		last.take("job")
		time.Sleep(5 * time.Minute)
		last.none()
	})
}

func TestFourWorkersWithTwoNamesNeverWaitForATenthOfASecond(t *testing.T) {
	eachKind(t, alone, func(w *world, k lock.Kind) {
		var v [2]visits
		var wg sync.WaitGroup
		for i := range 4 {
			c := w.alive()
			wg.Go(func() {
				c.visit(waiting(of(name(i%2), k), 100*time.Millisecond), &v[i%2], 500, 10*time.Millisecond)
			})
		}
		wg.Wait()
		if v != [2]visits{1000, 1000} {
			t.Errorf("got %d visits, want 1000 each", v)
		}
	})
}

// TestTenWorkersWithShortLeasesLoseNoCount has each try for 4 s at most to get a lease of 2 s, five times.
func TestTenWorkersWithShortLeasesLoseNoCount(t *testing.T) {
	for _, lease := range []time.Duration{2 * time.Second, 2000 * time.Millisecond, time.Minute} {
		eachKind(t, alone, func(w *world, k lock.Kind) {
			worlds := []*world{w, w.replica()}
			var v visits
			var wg sync.WaitGroup
			for i := range 10 {
				c := worlds[i%2].alive()
				wg.Go(func() {
					c.visit(waiting(leased(of("job", k), lease), 4*time.Second), &v, 5, 10*time.Millisecond)
				})
			}
			wg.Wait()
			if v != 50 {
				t.Errorf("%d visits are left of 50", v)
			}
		})
	}
}

func TestForcedReleasesOfReadersAndWritersLeaveEachOtherAlone(t *testing.T) {
	eachKind(t, []lock.Kind{lock.Read, lock.Write}, func(w *world, k lock.Kind) {
		c, there := w.alive(), w.replica()
		g := c.takeAs(of("job", k))
		if ok, err := there.b.ForceRelease(t.Context(), "job", lock.Read+lock.Write-k); ok || err != nil {
			t.Errorf("got %v, %v, want nothing released", ok, err)
		}
		synctest.Wait()
		c.none()
		c.release(g.Hold)
	})
}
