package storetest

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// watch makes an ear for each end of a hold of a name.
func (s *suite) watch(name string) *ear {
	s.Helper()
	e := newEar(s)
	s.Cleanup(s.Store.Watch(name, func(n lock.Notice) {
		if n.What == lock.NoticeEnded && !n.Unsure || n.What == lock.NoticeListening {
			e.hear(n)
		}
	}))
	e.await("listening", func() bool { return e.heard[lock.NoticeListening] > 0 })
	return e
}

func ended(c lock.EndCause, f lock.Fence) lock.Notice {
	return lock.Notice{What: lock.NoticeEnded, Cause: c, Fence: f}
}

// released is the notice for a hold of a kind that its owner released.
func released(kind lock.Kind, o lock.Owner, f lock.Fence) lock.Notice {
	n := ended(lock.EndReleased, f)
	if kind == lock.Semaphore {
		n.Hold = lock.PermitsOf(Full(o))
	}
	return n
}

// awaitEnds waits for the ends of holds and fails if there are others, or any is told twice.
func (e *ear) awaitEnds(want ...lock.Notice) {
	e.s.Helper()
	e.await("ends", func() bool { return len(e.told) >= len(want) })
	time.Sleep(2 * unheard)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.told, want) {
		e.s.Errorf("heard %+v, want %+v", e.told, want)
	}
}

// unheard is for how long a test listens to find that nothing more is heard.
const unheard = 30 * time.Millisecond

// kindContract is a contract that each kind keeps.
type kindContract struct {
	name string
	test func(s *suite, kind lock.Kind)
}

// watchContract is what who watches a name can rely on.
var watchContract = []kindContract{
	{"EachEndOfAHoldIsHeardOnceByWhoWatches", func(s *suite, kind lock.Kind) {
		e, other := s.watch("n"), s.watch("m")
		const o lock.Owner = "s:#1" // as lockd's are: of a hold of another program no fence is known
		c := of(kind, "n", o)
		var want []lock.Notice
		for range 3 {
			f := s.acquire(c).Fence
			s.release(back(c, f))
			want = append(want, released(kind, o, f))
			s.notHeld(back(c, f)) // repeated
		}
		f := s.acquire(c).Fence
		s.force("n", kind)
		if kind == lock.Semaphore { // permits have no fences
			f = 0
		}
		e.awaitEnds(append(want, ended(lock.EndForced, f))...)
		f = s.acquire(of(kind, "m", o)).Fence
		s.release(back(of(kind, "m", o), f))
		other.awaitEnds(released(kind, o, f))
	}},
	{"AShorterLeaseIsNoEndForWhoWatches", func(s *suite, kind lock.Kind) {
		e := s.watch("n")
		c := of(kind, "n", "o")
		f := s.acquire(c).Fence
		for range 3 {
			s.must(s.shorten(on(c, f), 10*time.Second))
		}
		time.Sleep(2 * unheard)
		s.release(back(c, f))
		e.awaitEnds(released(kind, "o", f))
	}},
	{"AHandoffIsHeardByWhoWatches", func(s *suite, kind lock.Kind) {
		if kind.Shared() {
			return
		}
		e := s.watch("n")
		c := of(kind, "n", "o")
		f := s.acquire(c).Fence
		r := over(back(c, f), "successor")
		next := s.release(r).HandedOver
		s.release(r) // repeated
		s.release(back(of(kind, "n", "successor"), next))
		e.awaitEnds(ended(lock.EndHandedOver, f), ended(lock.EndReleased, next))
	}},
	{"EachOfSeveralHoldsEndsByItself", func(s *suite, kind lock.Kind) {
		if !kind.Shared() {
			return
		}
		e := s.watch("n")
		shared := func(o lock.Owner) lock.Claim {
			c := of(kind, "n", o)
			c.Limit *= 2
			return c
		}
		a, b := s.acquire(shared("a")).Fence, s.acquire(shared("b")).Fence
		s.release(back(of(kind, "n", "a"), a))
		s.release(back(of(kind, "n", "b"), b))
		e.awaitEnds(released(kind, "a", a), released(kind, "b", b))
	}},
	{"WhoHoldsANameIsSeen", func(s *suite, kind lock.Kind) {
		seen, err := s.Store.See(s.Context(), "n")
		s.must(err)
		if len(seen.Holds) > 0 || seen.Fence != 0 {
			s.Errorf("got %+v of a free name", seen)
		}
		c := of(kind, "n", "o")
		f := s.acquire(c).Fence
		seen, err = s.Store.See(s.Context(), "n")
		s.must(err)
		if seen.Fence != f || len(seen.Holds) == 0 || seen.Many {
			s.Fatalf("got %+v, want a hold with fence %d", seen, f)
		}
		for _, h := range seen.Holds {
			s.wantTTL(h.TTL, ttl)
			if kind == lock.Semaphore && (len(seen.Holds) > 1 || h.ID != lock.PermitsOf(Full("o"))) {
				s.Errorf("got %+v, want one hold of permits", seen)
			}
			if kind == lock.Semaphore != h.Permit || !h.Permit && !h.Foreign && h.Fence != f {
				s.Errorf("got %+v, want fence %d", h, f)
			}
		}
		s.release(back(c, f))
		if seen, err = s.Store.See(s.Context(), "n"); err != nil || len(seen.Holds) > 0 || seen.Fence != f {
			s.Errorf("got %+v, %v after the release", seen, err)
		}
	}},
}
