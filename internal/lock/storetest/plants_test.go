package storetest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
)

// generous is a Store with a bug: a renewal adds to the lease.
type generous struct{ *memstore.Store }

func (s generous) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	more := slices.Clone(rs)
	for i, r := range rs {
		if st, err := s.Look(ctx, r.Name); err == nil && st.Held && r.TTL > 0 {
			more[i].TTL += st.TTL
		}
	}
	s.Store.Renew(ctx, more, done)
}

// trusting is a Store with a bug: it releases whatever the fence.
type trusting struct{ *memstore.Store }

func (s trusting) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	r.Fence = 0
	return s.Store.Release(ctx, r)
}

// counting is a Store with a bug: it adds to the hold count instead of setting it.
type counting struct{ *memstore.Store }

func (s counting) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	st, _ := s.Look(ctx, c.Name)
	g, err := s.Store.Acquire(ctx, c)
	if err == nil && st.Owner == c.Owner {
		c.Count, c.Fence = st.Count+1, g.Fence
		return s.Store.Acquire(ctx, c)
	}
	return g, err
}

// forgetting is a Store with a bug: a repeated hand-over is not recognized.
type forgetting struct{ *memstore.Store }

func (s forgetting) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	if st, err := s.Look(ctx, r.Name); err == nil && r.Next != nil && st.Owner == r.Next.Owner && st.Owner != r.Owner {
		return lock.Returned{}, lock.ErrNotHeld
	}
	return s.Store.Release(ctx, r)
}

// pushing is a Store with a bug: it grants a writer what readers hold.
type pushing struct{ *memstore.Store }

func (s pushing) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	if st, err := s.Look(ctx, c.Name); err == nil && c.Kind == lock.Write && c.Count == 1 && st.Kind == lock.Read {
		_, _ = s.ForceRelease(ctx, c.Name, lock.Read) // the fault
	}
	return s.Store.Acquire(ctx, c)
}

// slipping is a Store with a bug: readers do not let a writer go first.
type slipping struct{ *memstore.Store }

func (s slipping) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	g, err := s.Store.Acquire(ctx, c)
	if held, ok := errors.AsType[*lock.HeldError](err); ok && c.Kind == lock.Read {
		_ = s.Leave(ctx, c.Name, lock.Write, []lock.Owner{held.HeldBy})
		return s.Store.Acquire(ctx, c)
	}
	return g, err
}

// careless is a Store with a bug: with the writer go those who read beside it.
type careless struct{ *memstore.Store }

func (s careless) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	res, err := s.Store.Release(ctx, r)
	if err == nil && r.Kind == lock.Write && r.Remaining == 0 {
		_, _ = s.ForceRelease(ctx, r.Name, lock.Read)
	}
	return res, err
}

// renewing is a Store with a bug: a reader that repeats its claim has another hold.
type renewing struct{ *memstore.Store }

func (s renewing) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	if c.Kind == lock.Read && c.Count == 1 {
		_, _ = s.Release(ctx, lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner})
	}
	return s.Store.Acquire(ctx, c)
}

// leaking is a Store with a bug: of several permits that are given back, one is lost.
type leaking struct{ *memstore.Store }

func (s leaking) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	res, err := s.Store.Release(ctx, r)
	if err == nil && r.Kind == lock.Semaphore && r.Permits > 1 {
		lost := lock.Claim{Name: r.Name, Kind: r.Kind, Owner: "nobody", Count: 1, TTL: time.Hour, Permits: 1}
		_, _ = s.Acquire(ctx, lost)
	}
	return res, err
}

// lenient is a Store with a bug: it does not compare limits.
type lenient struct{ *memstore.Store }

func (s lenient) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	if st, err := s.Look(ctx, c.Name); err == nil && st.Limit > 0 {
		c.Limit = 0
	}
	return s.Store.Acquire(ctx, c)
}

// jumping is a Store with a bug: who asks for no place goes before those who wait.
type jumping struct{ *memstore.Store }

func (s jumping) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	if c.Kind == lock.Fair && c.Place == 0 {
		c.Kind = lock.Exclusive
	}
	return s.Store.Acquire(ctx, c)
}

// shuffling is a Store with a bug: who is refused goes to the end of the queue.
type shuffling struct{ *memstore.Store }

func (s shuffling) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	g, err := s.Store.Acquire(ctx, c)
	if errors.Is(err, lock.ErrHeld) && c.Kind == lock.Fair && c.Place > 0 {
		_ = s.Leave(ctx, c.Name, c.Kind, []lock.Owner{c.Owner})
		return s.Store.Acquire(ctx, c)
	}
	return g, err
}

// clinging is a Store with a bug: a release of what is not held leaves the place.
type clinging struct{ *memstore.Store }

func (s clinging) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	if st, err := s.Look(ctx, r.Name); err == nil && st.Owner != r.Owner && r.Kind.Placed() && r.Next == nil {
		return lock.Returned{}, lock.ErrNotHeld
	}
	return s.Store.Release(ctx, r)
}

// keeping is a Store with a bug: it does not let anybody leave.
type keeping struct{ *memstore.Store }

func (s keeping) Leave(context.Context, string, lock.Kind, []lock.Owner) error { return nil }

// greedy is a Store with a bug: if it cannot have all it keeps what it got.
type greedy struct{ *memstore.Store }

func (s greedy) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	gs, err := s.Store.AcquireAll(ctx, cs)
	if err != nil {
		_, _ = s.Acquire(ctx, cs[0])
	}
	return gs, err
}

// The comparison is worth something only if it sees bugs.
func TestPlantedBugsAreFound(t *testing.T) {
	plants := map[string]func(*memstore.Store) lock.Store{
		"a renewal that adds up":    func(s *memstore.Store) lock.Store { return generous{s} },
		"a release without a fence": func(s *memstore.Store) lock.Store { return trusting{s} },
		"a count that adds up":      func(s *memstore.Store) lock.Store { return counting{s} },
		"a hand-over done once":     func(s *memstore.Store) lock.Store { return forgetting{s} },

		"a writer beside readers":             func(s *memstore.Store) lock.Store { return pushing{s} },
		"a reader before a writer that waits": func(s *memstore.Store) lock.Store { return slipping{s} },
		"reads that end with the write":       func(s *memstore.Store) lock.Store { return careless{s} },
		"a read repeated with a new fence":    func(s *memstore.Store) lock.Store { return renewing{s} },
		"a permit that is lost":               func(s *memstore.Store) lock.Store { return leaking{s} },
		"a limit that is not kept":            func(s *memstore.Store) lock.Store { return lenient{s} },
		"fair waiters out of order":           func(s *memstore.Store) lock.Store { return jumping{s} },
		"a place behind at each refusal":      func(s *memstore.Store) lock.Store { return shuffling{s} },
		"a place that outlives a release":     func(s *memstore.Store) lock.Store { return clinging{s} },
		"places that nobody can leave":        func(s *memstore.Store) lock.Store { return keeping{s} },
		"some of several":                     func(s *memstore.Store) lock.Store { return greedy{s} },
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			a, b := memstore.New(), memstore.New()
			err := storetest.Compare(t.Context(), rigOf(a, a), rigOf(b, plant(b)), 1, 20_000)
			if err == nil {
				t.Fatal("the bug was not found")
			}
			t.Log(err)
		})
	}
}
