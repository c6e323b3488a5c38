package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// climate is what happens in a storm.
type climate struct {
	cfg               Config
	shortest, longest time.Duration // of leases
	leaves            bool          // clients go without releasing what they have
	restarts          bool          // replicas are restarted, and members lose their data
	forces            bool          // names are freed by force
}

// storm is what goes on in a bubble.
type storm struct {
	*world
	*checker
	climate

	lock   sync.Mutex // guards the fields below
	rand   *rand.Rand
	calm   bool // members do nothing wrong any more
	owner  int
	stores []*Store
}

func (s *storm) intN(n int) int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.rand.IntN(n)
}

// store is one of the replicas.
func (s *storm) store() *Store {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.stores[s.rand.IntN(len(s.stores))]
}

func (s *storm) duration(most time.Duration) time.Duration {
	return time.Duration(s.intN(int(most) + 1))
}

// fate is what a member does to one call.
func (s *storm) fate(string) fate {
	s.lock.Lock()
	calm := s.calm
	s.lock.Unlock()
	quick := fate{before: s.duration(5 * time.Millisecond), after: s.duration(5 * time.Millisecond)}
	if calm {
		return quick
	}
	switch n := s.intN(100); {
	case n < 80:
		return quick
	case n < 88:
		return fate{before: s.duration(450 * time.Millisecond), after: s.duration(450 * time.Millisecond)}
	case n < 91:
		return fate{noReply: true, before: s.duration(50 * time.Millisecond)}
	case n < 94:
		return fate{noReply: true, before: s.duration(4 * time.Second)}
	case n < 97:
		return silent
	default:
		return down
	}
}

// trouble has members go away and come back, with and without their data, and replicas be restarted.
func (s *storm) trouble(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, s.duration(2*time.Second))
		n := s.world.nodes[s.intN(len(s.world.nodes))]
		switch what := s.intN(4); {
		case what == 0 && s.restarts:
			n.restart()
		case what == 1:
			n.becomes(down)
		case what == 2 || !s.restarts:
			n.becomes(silent)
		default:
			s.lock.Lock()
			i := s.rand.IntN(len(s.stores))
			s.lock.Unlock()
			fresh := s.replica()
			s.lock.Lock()
			s.stores[i] = fresh
			s.lock.Unlock()
		}
		pause(ctx, s.duration(2*time.Second))
		n.choose(s.fate)
	}
}

// replica is a new one with a clock that is up to two hours wrong.
func (s *storm) replica() *Store {
	store := s.another(s.cfg)
	s.Cleanup(store.ListenForced(func(string) {})) // as a broker does
	if hours := s.intN(4); hours < 3 {
		store.hours(hours)
	}
	return store
}

// clients is how many there are, and runs is for how long.
const (
	clients = 6
	runs    = 2 * time.Minute
)

// blow runs a storm, and returns what went wrong.
func (c climate) blow(t *testing.T, seed uint64, aftermath func(*storm)) (wrong []string) {
	synctest.Test(t, func(t *testing.T) {
		s := &storm{world: &world{T: t}, climate: c, rand: rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // no secret
		for range 5 {
			n := newNode()
			n.hasty = true
			n.choose(s.fate)
			s.world.nodes = append(s.world.nodes, n)
		}
		s.checker = newChecker(s.world.nodes)
		for range 3 {
			s.stores = append(s.stores, s.replica())
		}
		ctx, cancel := context.WithTimeout(t.Context(), runs)
		defer cancel()
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() { s.client(ctx) })
		}
		wg.Go(func() { s.trouble(ctx) })
		if c.forces {
			wg.Go(func() { s.operator(ctx) })
		}
		wg.Wait()
		s.clearUp()
		aftermath(s)
		s.end()
		wrong = s.wrong
		t.Logf("seed %d: %v", seed, s.did)
	})
	return wrong
}

// clearUp ends the storm.
func (s *storm) clearUp() {
	s.lock.Lock()
	s.calm = true
	s.lock.Unlock()
	for _, n := range s.world.nodes {
		n.choose(s.fate)
	}
}
