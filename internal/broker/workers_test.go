package broker_test

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// crew are workers who each hold a lock for some time, again and again, at several replicas.
type crew struct {
	kinds            []lock.Kind
	workers, times   int
	replicas, atOnce int // atOnce is how many work at a time
	stay             time.Duration
	request          func(i int, k lock.Kind) request.Acquire
	apart            time.Duration // they come one after the other, and are served in this order
	within           time.Duration // all are done, if that is not 0
	span             time.Duration // they work for so long, however often
}

func TestWorkersComeThrough(t *testing.T) {
	plain := func(_ int, k lock.Kind) request.Acquire { return of("job", k) }
	with := func(wait, lease time.Duration) func(int, lock.Kind) request.Acquire {
		return func(_ int, k lock.Kind) request.Acquire {
			req := of("job", k)
			req.Wait, req.Lease = &wait, &lease
			return req
		}
	}
	for name, c := range map[string]crew{
		"a hundred once": {
			kinds: alone, workers: 100, times: 1, replicas: 2, atOnce: 1, stay: 10 * time.Millisecond,
			request: plain,
		},
		"sixteen a hundred times": {
			kinds: alone, workers: 16, times: tier.Pick(20, 100), replicas: 2, atOnce: 1,
			stay: 10 * time.Millisecond, request: plain,
		},
		"a thousand at one replica, in their order": {
			kinds: []lock.Kind{lock.Exclusive}, workers: 1000, times: 1, replicas: 1, atOnce: 1,
			stay: 10 * time.Millisecond, request: plain, apart: time.Millisecond,
		},
		"ten with a lease of 2 s": {
			kinds: alone, workers: 10, times: 5, replicas: 2, atOnce: 1, stay: 10 * time.Millisecond,
			request: with(4*time.Second, 2*time.Second),
		},
		"ten with a lease of 1 min": {
			kinds: alone, workers: 10, times: 5, replicas: 2, atOnce: 1, stay: 10 * time.Millisecond,
			request: with(4*time.Second, time.Minute),
		},
		"fair, 10 ms apart": {
			kinds: []lock.Kind{lock.Fair}, workers: 64, times: 1, replicas: 3, atOnce: 1,
			stay: 50 * time.Millisecond, request: plain, apart: 10 * time.Millisecond,
		},
		"five hundred fair": {
			kinds: []lock.Kind{lock.Fair}, workers: tier.Pick(100, 500), times: 1, replicas: 3, atOnce: 1,
			stay: 200 * time.Millisecond, request: with(time.Hour, 5*time.Second), within: 2 * time.Minute,
		},
		"fifty readers, renewed": {
			kinds: []lock.Kind{lock.Read}, workers: 50, times: 1, replicas: 2, atOnce: 50,
			stay: 35 * time.Second, request: plain,
		},
		"two names, four workers": {
			kinds: alone, workers: 4, times: tier.Pick(50, 500), replicas: 1, atOnce: 2, stay: 10 * time.Millisecond,
			request: func(i int, k lock.Kind) request.Acquire {
				req := of([]string{"a", "b"}[i%2], k)
				req.Wait = new(100 * time.Millisecond)
				return req
			},
		},
		"several names, in any order": {
			kinds: alone, workers: 4, times: 50, replicas: 2, atOnce: 1, stay: 10 * time.Millisecond,
			request: func(i int, k lock.Kind) request.Acquire {
				return allOf(k, [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a"}, {"c", "a"}}[i]...)
			},
			within: time.Minute,
		},
		"sixteen with four permits": {
			kinds: []lock.Kind{lock.Semaphore}, workers: 16, times: tier.Pick(20, 100), replicas: 2, atOnce: 4,
			stay: 10 * time.Millisecond, request: func(int, lock.Kind) request.Acquire {
				return permits(1, 4)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, c.kinds, func(w *world, k lock.Kind) {
				worlds := []*world{w}
				for len(worlds) < c.replicas {
					worlds = append(worlds, w.replica())
				}
				c.work(t, worlds, k)
			})
		})
	}
}

// work has all work, and counts those inside in a way that would show one too many, or a name held twice. It says who
// worked, one after the other.
func (c crew) work(t *testing.T, worlds []*world, k lock.Kind) (served []int) {
	var mu sync.Mutex
	inside, most := map[string]int{}, 0
	come := func(name string, by int) {
		mu.Lock()
		defer mu.Unlock()
		inside[name] += by
		all := 0
		for _, n := range inside {
			all += n
			if n > c.atOnce || n > 1 && !k.Shared() {
				t.Errorf("%d are inside of %q", n, name)
			}
		}
		most = max(most, all)
	}
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range c.workers {
		worker, req := worlds[i%len(worlds)].alive(), c.request(i, k)
		wg.Go(func() {
			for n := 0; n < c.times || time.Since(begin) < c.span; n++ {
				if c.span > 0 {
					req.Wait = new(c.span - time.Since(begin))
				}
				worker.acquire(req)
				g, ok := worker.await().(session.Granted)
				if !ok && c.span > 0 {
					return
				}
				come(req.Name, 1)
				time.Sleep(c.stay)
				come(req.Name, -1)
				mu.Lock()
				served = append(served, i)
				mu.Unlock()
				worker.releaseAll(append(g.More, g.Hold)...)
			}
		})
		time.Sleep(c.apart)
	}
	wg.Wait()
	if most != c.atOnce || c.span == 0 && len(served) != c.workers*c.times {
		t.Errorf("%d visits of %d, at most %d at once, want %d", len(served), c.workers*c.times, most, c.atOnce)
	}
	if c.apart > 0 && !slices.IsSorted(served) {
		t.Errorf("served %v, want them in their order", served)
	}
	if d := time.Since(begin); c.within > 0 && d > c.within {
		t.Errorf("it took %v", d)
	}
	return served
}

// releaseAll releases locks and waits for the answers.
func (c *client) releaseAll(holds ...session.Hold) {
	for _, h := range holds {
		c.Release(c.id(), h)
	}
	for range holds {
		e := c.await()
		if _, ok := e.(session.Released); !ok {
			c.t.Errorf("got %#v, want it released", e)
		}
	}
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
	return startKept(w.t, testConfig(), w.store, kept, dog, zap.NewNop(), reg), kept
}

func TestTheWatchdogKeepsExactlyWhatIsHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		there, kept := w.registered()
		var wg sync.WaitGroup
		var granted atomic.Int64
		for range 16 {
			c := there.open() // no time passes
			try := of("job", lock.Exclusive)
			try.Wait = new(time.Duration)
			wg.Go(func() {
				for granted.Load() < int64(tier.Pick(200, 2000)) {
					c.acquire(try)
					<-c.Outbox().Wake()
					g, ok := c.Outbox().TakeSome(math.MaxInt, math.MaxInt)[0].(session.Granted)
					if !ok {
						continue
					}
					granted.Add(1)
					n := kept.size()
					for tries := 0; n == 0 && tries < 1_000_000; tries++ { // it is told first, and kept in the same step
						runtime.Gosched()
						n = kept.size()
					}
					if n != 1 {
						t.Errorf("%d leases are kept while one lock is held", n)
					}
					c.releaseAll(g.Hold)
				}
			})
		}
		wg.Wait()
		if n := kept.size(); n != 0 {
			t.Errorf("%d leases are kept after %d grants and releases", n, granted.Load())
		}
		last := there.alive()
		last.take("job")
		time.Sleep(5 * time.Minute)
		last.none()
	})
}

func TestShortHoldsDoNotMultiplyRenewals(t *testing.T) {
	after := func(short int) (calls int64) {
		inWorld(t, func(w *world) {
			c := w.alive()
			for range short {
				c.release(c.take("job").Hold)
				time.Sleep(50 * time.Millisecond)
			}
			c.take("job")
			time.Sleep(20 * time.Second)
			w.store.renewals.Store(0)
			time.Sleep(5 * time.Minute)
			c.none()
			calls = w.store.renewals.Load()
		})
		return calls
	}
	if none, many := after(0), after(400); many > none*5/4 {
		t.Errorf("%d renewals in 5 min after 400 short holds, %d without them", many, none)
	}
}
