package broker_test

import (
	"context"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// tardy is a Store that is slow to tell and to show: messages for who watches take up to 20 ms and keep their order, looks
// take up to 4 ms.
type tardy struct {
	lock.Store
	bug func(name string) // happens before each message, unless nil

	mu   sync.Mutex // guards the fields below
	rng  *mrand.Rand
	last time.Time // when the last message arrives
}

func (s *tardy) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.Int64N(int64(d)))
}

func (s *tardy) Watch(name string, notify func(lock.Notice)) (stop func()) {
	return s.Store.Watch(name, func(n lock.Notice) {
		at := time.Now().Add(s.upTo(20 * time.Millisecond))
		s.mu.Lock()
		defer s.mu.Unlock()
		if !at.After(s.last) {
			at = s.last.Add(time.Microsecond)
		}
		s.last = at
		time.AfterFunc(time.Until(at), func() {
			if s.bug != nil {
				s.bug(name)
			}
			notify(n)
		})
	})
}

func (s *tardy) See(ctx context.Context, name string) (lock.Sight, error) {
	time.Sleep(s.upTo(2 * time.Millisecond))
	st, err := s.Store.See(ctx, name)
	time.Sleep(s.upTo(2 * time.Millisecond))
	return st, err
}

// ends are those of holds, by name and fence, with the causes that may be told.
type ends struct {
	mu  sync.Mutex // guards the fields below
	of  map[string]map[lock.Fence][]lock.EndCause
	sum int // of all ends
}

func (e *ends) add(h broker.Hold, causes ...lock.EndCause) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of[h.Name] == nil {
		e.of[h.Name] = make(map[lock.Fence][]lock.EndCause)
	}
	e.of[h.Name][h.Fence] = causes
	e.sum++
}

// wrong compares what one watcher heard of all names with the ends that there were.
func (e *ends) wrong(who string, heard []broker.Unlocked) (wrong []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	times := make(map[broker.Unlocked]int)
	for _, u := range heard {
		if causes := e.of[u.Name][u.Fence]; u.Merged > 0 || !slices.Contains(causes, u.Cause) {
			wrong = append(wrong, fmt.Sprintf("%s heard %+v, want %v", who, u, causes))
		}
		times[broker.Unlocked{Name: u.Name, Fence: u.Fence}]++
	}
	for name, fences := range e.of {
		for f, causes := range fences {
			if n := times[broker.Unlocked{Name: name, Fence: f}]; n != 1 {
				wrong = append(wrong, fmt.Sprintf("%s heard %d times of the end of %s %d, %v", who, n, name, f, causes))
			}
		}
	}
	return wrong
}

// endingKinds are the kinds of the locks whose holds end, each with a name of its own.
var endingKinds = []lock.Kind{lock.Exclusive, lock.Fair, lock.Read}

// endAtRandom takes a lock and has its hold end in one way or another.
func (w *world) endAtRandom(c *client, e *ends, rng *mrand.Rand) {
	time.Sleep(time.Duration(rng.Int64N(int64(30 * time.Millisecond))))
	k := endingKinds[rng.IntN(len(endingKinds))]
	req, way := of(k.String(), k), rng.IntN(6)
	if way == 0 {
		req.Lease = new(100*time.Millisecond + time.Duration(rng.Int64N(int64(50*time.Millisecond))))
	}
	c.acquire(req)
	h := c.awaitGrant().Hold
	switch {
	case way == 0:
		c.awaitEnd()
		e.add(h, lock.EndExpired)
	case way == 1 && k != lock.Read:
		if _, err := w.b.ForceRelease(context.Background(), h.Name, k); err != nil {
			c.t.Error(err)
		}
		c.awaitEnd()
		e.add(h, lock.EndForced)
	default:
		time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
		c.Release(c.id(), h)
		c.awaitEnd()
		e.add(h, lock.EndReleased, lock.EndHandedOver)
	}
}

// awaitEnd waits until the client hears that its hold ended.
func (c *client) awaitEnd() {
	for {
		<-c.Outbox().Wake()
		for _, e := range c.Outbox().Take() {
			switch e.(type) {
			case broker.Released, broker.Lost:
				return
			}
		}
	}
}

// hearAll collects what a watcher hears until over is closed.
func (c *client) hearAll(over <-chan struct{}) (heard []broker.Unlocked) {
	for {
		select {
		case <-c.Outbox().Wake():
			for _, e := range c.Outbox().Take() {
				if u, ok := e.(broker.Unlocked); ok {
					heard = append(heard, u)
				}
			}
		case <-over:
			return heard
		}
	}
}

// watchSlowly makes a replica with slow messages, and a client there that watches all names.
func (w *world) watchSlowly(rng *mrand.Rand, bug func(b *broker.Broker, name string)) (*world, *client) {
	store := &tardy{Store: w.store.Store, rng: rng}
	r := start(w.t, testConfig(), &faults{Store: store})
	if bug != nil {
		store.bug = func(name string) { bug(r.b, name) }
	}
	c := r.alive()
	for _, k := range endingKinds {
		c.Watch(c.id(), k.String())
	}
	time.Sleep(time.Second)
	if n := len(c.events()); n != len(endingKinds) {
		w.t.Fatalf("%d watches are answered", n)
	}
	return r, c
}

// runEnds has clients of two replicas end holds at random while one client of each watches, and returns what was told wrong.
func runEnds(t *testing.T, seed uint64, bug func(b *broker.Broker, name string)) (sum int, wrong []string) {
	inWorld(t, func(w *world) {
		rng := func(n int) *mrand.Rand { return mrand.New(mrand.NewPCG(seed, uint64(n))) } //nolint:gosec // a test
		here, hears := w.watchSlowly(rng(1), bug)
		there, listens := w.watchSlowly(rng(2), bug)
		e, over := &ends{of: make(map[string]map[lock.Fence][]lock.EndCause)}, make(chan struct{})
		var clients, watchers sync.WaitGroup
		heard := make([][]broker.Unlocked, 2)
		for i, c := range []*client{hears, listens} {
			watchers.Go(func() { heard[i] = c.hearAll(over) })
		}
		for i := range 6 {
			r, rng := []*world{here, there}[i%2], rng(10+i)
			c := r.alive()
			clients.Go(func() {
				for range 100 {
					r.endAtRandom(c, e, rng)
				}
			})
		}
		clients.Wait()
		settled()
		close(over)
		watchers.Wait()
		sum, wrong = e.sum, append(e.wrong("here", heard[0]), e.wrong("there", heard[1])...)
	})
	return sum, wrong
}

// plantSeed is the seed of the runs with a planted bug. Without a bug nothing is wrong with it.
const plantSeed = 5

// TestEachEndIsToldOnceHoweverLateItsMessageIs lets ends of all causes meet slow messages and slow looks at random.
func TestEachEndIsToldOnceHoweverLateItsMessageIs(t *testing.T) {
	for _, seed := range []uint64{1, 2, plantSeed, mrand.Uint64()} {
		sum, wrong := runEnds(t, seed, nil)
		for _, s := range wrong[:min(len(wrong), 5)] {
			t.Errorf("seed %d: %s", seed, s)
		}
		if sum != 600 {
			t.Errorf("%d holds ended, want 600", sum)
		}
	}
}

// TestEndsToldWronglyWouldBeNoticed is the control.
func TestEndsToldWronglyWouldBeNoticed(t *testing.T) {
	for what, bug := range map[string]func(b *broker.Broker, name string){
		"an end told twice":           (*broker.Broker).ForgetEnds,
		"an end that is dropped":      (*broker.Broker).DropDoubts,
		"an end told before its time": (*broker.Broker).HurryDoubts,
	} {
		t.Run(what, func(t *testing.T) {
			_, wrong := runEnds(t, plantSeed, bug)
			if len(wrong) == 0 {
				t.Fatal("nobody noticed it")
			}
			t.Logf("%d times, such as %s", len(wrong), wrong[0])
		})
	}
}
