package watching_test

import (
	"context"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/watching"
)

// slowStore is slow to tell and to show: messages take up to 20 ms and keep their order, looks take up to 4 ms, and
// until what was said before is heard.
type slowStore struct {
	watching.Store
	bug   func(name string) // happens before each message, unless nil
	hasty bool              // a planted bug: looks do not wait for messages

	mu   sync.Mutex // guards the fields below
	rng  *mrand.Rand
	last time.Time // when the last message arrives
}

func (s *slowStore) upTo(d time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rng.Int64N(int64(d)))
}

func (s *slowStore) Watch(name string, notify func(lock.Notice)) (stop func()) {
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

func (s *slowStore) See(ctx context.Context, name string) (lock.Seen, error) {
	time.Sleep(s.upTo(2 * time.Millisecond))
	st, err := s.Store.See(ctx, name)
	time.Sleep(s.upTo(2 * time.Millisecond))
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if !s.hasty {
		time.Sleep(time.Until(last) + time.Nanosecond)
	}
	return st, err
}

// end is that of a hold, or what is told of it.
type end struct {
	name  string
	fence lock.Fence // 0 for permits that were not released
	cause lock.EndCause
}

// ends are those that there were.
type ends struct {
	mu  sync.Mutex // guards all
	all []end
}

func (e *ends) add(n end) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, n)
}

// watcher hears.
type watcher struct {
	answers int
	ends
}

func (*watcher) Tenant() lock.Tenant { return "" }
func (w *watcher) Watching(uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers++
}

func (w *watcher) Unlocked(name string, e watching.End) { w.add(end{name, e.Fence, e.Cause}) }

// wrong compares what a watcher heard with the ends that there were.
func (e *ends) wrong(who string, heard []end) (wrong []string) {
	count := func(es []end) map[end]int {
		n := make(map[end]int)
		for _, e := range es {
			n[e]++
		}
		return n
	}
	want, got := count(e.all), count(heard)
	for e, n := range want {
		if got[e] != n {
			wrong = append(wrong, fmt.Sprintf("%s heard %d times of %+v, want %d", who, got[e], e, n))
		}
	}
	for e, n := range got {
		if want[e] == 0 {
			wrong = append(wrong, fmt.Sprintf("%s heard %d times of %+v, which never was", who, n, e))
		}
	}
	return wrong
}

// replica is a hub on a slow store, and somebody who watches all names.
type replica struct {
	store *memstore.Store
	hub   *watching.Hub
	hears watcher
}

// endingKinds are the kinds of the locks whose holds end, each with a name of its own.
var endingKinds = []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Semaphore}

func newReplica(t *testing.T, store *memstore.Store, rng *mrand.Rand, b bug) *replica {
	slow := &slowStore{Store: store, rng: rng, hasty: b.hasty}
	r := &replica{store: store, hub: watching.New(slow)}
	if b.happens != nil {
		slow.bug = func(name string) { b.happens(r.hub, name) }
	}
	for i, k := range endingKinds {
		r.hub.Watch(k.String(), &r.hears, uint64(i)) //nolint:gosec // small
	}
	time.Sleep(time.Second)
	r.hears.mu.Lock()
	defer r.hears.mu.Unlock()
	if r.hears.answers != len(endingKinds) {
		t.Fatalf("%d watches are answered", r.hears.answers)
	}
	return r
}

// take takes a lock, whenever it is free.
func (r *replica) take(t *testing.T, k lock.Kind, o lock.Owner, ttl time.Duration) lock.Return {
	c := lock.Claim{Name: k.String(), Kind: k, Owner: o, TTL: ttl}
	if k == lock.Semaphore {
		c.Permits, c.Limit = 2, 20
	}
	for {
		g, err := lock.Await(t.Context(), r.store.StartAcquire, c)
		if err == nil {
			return lock.Return{Name: c.Name, Kind: k, Owner: o, Fence: g.Fence, Permits: c.Permits}
		}
		if !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

// endAtRandom takes a lock and has its hold end in one way or another.
func (r *replica) endAtRandom(t *testing.T, e *ends, o lock.Owner, rng *mrand.Rand) {
	upTo := func(ms int64) time.Duration { return time.Duration(rng.Int64N(ms * int64(time.Millisecond))) }
	time.Sleep(upTo(30))
	k, way := endingKinds[rng.IntN(len(endingKinds))], rng.IntN(6)
	ttl := time.Minute
	if way == 0 {
		ttl = 100*time.Millisecond + upTo(50)
	}
	h := r.take(t, k, o, ttl)
	n := end{name: h.Name, fence: h.Fence}
	switch {
	case way == 0:
		time.Sleep(ttl)
		n.cause = lock.EndExpired
		if k == lock.Semaphore {
			n.fence = 0
		}
		e.add(n)
		return
	case way == 1 && !k.Shared():
		time.Sleep(upTo(20))
		if _, err := r.store.ForceRelease(t.Context(), h.Name, k); err != nil {
			t.Error(err)
		}
		n.cause = lock.EndForced
		e.add(n)
		return
	}
	time.Sleep(upTo(20))
	r.release(t, e, h, k == lock.Exclusive && way == 2)
}

// release releases a hold, or hands it to a successor who releases it.
func (r *replica) release(t *testing.T, e *ends, h lock.Return, handoff bool) {
	if handoff {
		h.Next = &lock.Successor{Owner: h.Owner + "'s successor", TTL: time.Minute}
	}
	res, err := lock.Await(t.Context(), r.store.StartRelease, h)
	if err != nil {
		t.Error(err)
	}
	n, id := end{h.Name, h.Fence, lock.EndReleased}, ""
	if h.Kind == lock.Semaphore {
		id = lock.PermitsOf(h.Owner)
	}
	if handoff {
		n.cause = lock.EndHandedOver
	}
	e.add(n)
	r.hub.Ended(h.Name, watching.End{Cause: n.cause, Fence: h.Fence, Hold: id})
	if handoff {
		h.Owner, h.Fence, h.Next = h.Next.Owner, res.HandedOver, nil
		r.release(t, e, h, false)
	}
}

// bug is a planted one.
type bug struct {
	happens func(h *watching.Hub, name string) // before each message
	hasty   bool                               // looks do not wait for messages
}

// runEnds has clients of two replicas end holds at random, and returns what was told wrong.
func runEnds(t *testing.T, seed uint64, bug bug) (sum int, wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		rng := func(n int) *mrand.Rand { return mrand.New(mrand.NewPCG(seed, uint64(n))) } //nolint:gosec // a test
		store := memstore.New()
		here, there := newReplica(t, store, rng(1), bug), newReplica(t, store, rng(2), bug)
		var e ends
		var clients sync.WaitGroup
		for i := range 6 {
			r, rng := []*replica{here, there}[i%2], rng(10+i)
			clients.Go(func() {
				for n := range 100 {
					r.endAtRandom(t, &e, lock.Owner(fmt.Sprintf("session:%d#%d", i, n)), rng)
				}
			})
		}
		clients.Wait()
		time.Sleep(time.Minute)
		here.hub.Close()
		there.hub.Close()
		sum, wrong = len(e.all), append(e.wrong("here", here.hears.all), e.wrong("there", there.hears.all)...)
	})
	slices.Sort(wrong)
	return sum, wrong
}

// plantSeed is the seed of the runs with a planted bug. Without a bug nothing is wrong with it.
const plantSeed = 5

// TestEachEndIsToldOnceHoweverLateItsMessageIs lets ends of all causes meet slow messages and slow looks at random.
func TestEachEndIsToldOnceHoweverLateItsMessageIs(t *testing.T) {
	for _, seed := range []uint64{1, 2, plantSeed, mrand.Uint64()} {
		sum, wrong := runEnds(t, seed, bug{})
		for _, s := range wrong[:min(len(wrong), 5)] {
			t.Errorf("seed %d: %s", seed, s)
		}
		if sum < 600 {
			t.Errorf("%d holds ended, want 600 and more", sum)
		}
	}
}

// TestEndsToldWronglyWouldBeNoticed is the control.
func TestEndsToldWronglyWouldBeNoticed(t *testing.T) {
	for what, bug := range map[string]bug{
		"an end told twice":                    {happens: (*watching.Hub).ForgetEnds},
		"an end that is dropped":               {happens: (*watching.Hub).DropEnds},
		"a look that does not wait for others": {hasty: true},
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
