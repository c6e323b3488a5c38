package storetest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/broker/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
)

func rigOf(s *memstore.Store, as broker.Store) storetest.Rig {
	return storetest.Rig{Store: as, Hooks: storetest.Hooks{
		Expire: func(name string) error { s.Expire(name); return nil },
		Lose:   func() error { s.Lose(); return nil },
		Occupy: func(name string) error { s.Occupy(name); return nil },
	}}
}

func TestTwoEqualStoresDoNotDiffer(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	seed := rand.Uint64()
	if err := storetest.Compare(t.Context(), rigOf(a, a), rigOf(b, b), seed, 20_000); err != nil {
		t.Error(err)
	}
}

// generous is a Store with a bug: a renewal adds to the lease.
type generous struct{ *memstore.Store }

func (s generous) Renew(ctx context.Context, rs []broker.Renewal, done func(int, error)) {
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

func (s trusting) Release(ctx context.Context, r broker.Return) (broker.Returned, error) {
	r.Fence = 0
	return s.Store.Release(ctx, r)
}

// counting is a Store with a bug: it adds to the hold count instead of setting it.
type counting struct{ *memstore.Store }

func (s counting) Acquire(ctx context.Context, c broker.Claim) (broker.Grant, error) {
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

func (s forgetting) Release(ctx context.Context, r broker.Return) (broker.Returned, error) {
	if st, err := s.Look(ctx, r.Name); err == nil && r.Next != nil && st.Owner == r.Next.Owner && st.Owner != r.Owner {
		return broker.Returned{}, broker.ErrNotHeld
	}
	return s.Store.Release(ctx, r)
}

// The comparison is worth something only if it sees bugs.
func TestPlantedBugsAreFound(t *testing.T) {
	plants := map[string]func(*memstore.Store) broker.Store{
		"a renewal that adds up":    func(s *memstore.Store) broker.Store { return generous{s} },
		"a release without a fence": func(s *memstore.Store) broker.Store { return trusting{s} },
		"a count that adds up":      func(s *memstore.Store) broker.Store { return counting{s} },
		"a hand-over done once":     func(s *memstore.Store) broker.Store { return forgetting{s} },
	}
	for name, plant := range plants {
		t.Run(name, func(t *testing.T) {
			a, b := memstore.New(), memstore.New()
			err := storetest.Compare(t.Context(), rigOf(a, a), rigOf(b, plant(b)), 1, 5_000)
			if err == nil {
				t.Fatal("the bug was not found")
			}
			t.Log(err)
		})
	}
}

func TestFlakyStore(t *testing.T) {
	claim := broker.Claim{Name: "n", Kind: broker.Exclusive, Owner: "o", Count: 1, TTL: 1e9}
	for _, c := range []struct {
		fate      storetest.Fate
		want      error
		held      bool
		heldLater bool
	}{
		{storetest.Deliver, nil, true, true},
		{storetest.LoseReply, broker.ErrOutcomeUnknown, true, true},
		{storetest.LoseRequest, broker.ErrOutcomeUnknown, false, false},
		{storetest.Delay, broker.ErrOutcomeUnknown, false, true},
		{storetest.Refuse, broker.ErrUnavailable, false, false},
	} {
		f := storetest.NewFlaky(memstore.New())
		f.Next(storetest.OpAcquire, c.fate)
		g, err := f.Acquire(t.Context(), claim)
		if !errors.Is(err, c.want) || (err != nil) != (g.Fence == 0) {
			t.Errorf("fate %d: got %+v, %v, want error %v", c.fate, g, err, c.want)
		}
		if st, _ := f.Look(t.Context(), "n"); st.Held != c.held {
			t.Errorf("fate %d: held is %v, want %v", c.fate, st.Held, c.held)
		}
		f.RunLate(t.Context())
		if st, _ := f.Look(t.Context(), "n"); st.Held != c.heldLater {
			t.Errorf("fate %d: held is %v after the late calls, want %v", c.fate, st.Held, c.heldLater)
		}
		if _, err := f.Acquire(t.Context(), claim); err != nil {
			t.Errorf("fate %d: the next call got %v, want it delivered", c.fate, err)
		}
	}
}

func TestFlakyRenewalsShareTheirFate(t *testing.T) {
	f := storetest.NewFlaky(memstore.New())
	rs := make([]broker.Renewal, 3)
	for i := range rs {
		c := broker.Claim{Name: string(rune('a' + i)), Kind: broker.Exclusive, Owner: "o", Count: 1, TTL: 1e9}
		g, err := f.Acquire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		rs[i] = broker.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: g.Fence, TTL: 60e9}
	}
	for fate, want := range map[storetest.Fate]error{
		storetest.Deliver: nil, storetest.LoseReply: broker.ErrOutcomeUnknown, storetest.Refuse: broker.ErrUnavailable,
	} {
		f.Next(storetest.OpRenew, fate)
		calls := 0
		f.Renew(t.Context(), rs, func(_ int, err error) {
			calls++
			if !errors.Is(err, want) {
				t.Errorf("fate %d: got %v, want %v", fate, err, want)
			}
		})
		if calls != len(rs) {
			t.Errorf("fate %d: done was called %d times, want %d", fate, calls, len(rs))
		}
	}
}
