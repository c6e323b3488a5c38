package storetest_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/tier"
)

func rigOf(s *memstore.Store, as lock.Store) storetest.Rig {
	return storetest.Rig{Store: as, Hooks: storetest.Hooks{
		Expire:      func(name string) error { s.Expire(name); return nil },
		ExpireHold:  func(name string, o lock.Owner) error { s.ExpireHold(name, o); return nil },
		ExpirePlace: func(name string, o lock.Owner) error { s.ExpirePlace(name, o); return nil },
		Lose:        func() error { s.Lose(); return nil },
		Occupy:      func(name string) error { s.Occupy(name); return nil },
	}}
}

func TestTwoEqualStoresDoNotDiffer(t *testing.T) {
	a, b := memstore.New(), memstore.New()
	steps := tier.Pick(2000, 20_000)
	if err := storetest.Compare(t.Context(), rigOf(a, a), rigOf(b, b), rand.Uint64(), steps); err != nil {
		t.Error(err)
	}
}

func TestFlakyStore(t *testing.T) {
	claim := lock.Claim{Name: "n", Kind: lock.Exclusive, Owner: "o", Count: 1, TTL: 1e9}
	for _, c := range []struct {
		fate      storetest.Fate
		want      error
		held      bool
		heldLater bool
	}{
		{storetest.Deliver, nil, true, true},
		{storetest.LoseReply, lock.ErrOutcomeUnknown, true, true},
		{storetest.LoseRequest, lock.ErrOutcomeUnknown, false, false},
		{storetest.Delay, lock.ErrOutcomeUnknown, false, true},
		{storetest.Refuse, lock.ErrUnavailable, false, false},
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
	rs := make([]lock.Renewal, 3)
	for i := range rs {
		c := lock.Claim{Name: string(rune('a' + i)), Kind: lock.Exclusive, Owner: "o", Count: 1, TTL: 1e9}
		g, err := f.Acquire(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		rs[i] = lock.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: g.Fence, TTL: 60e9}
	}
	for fate, want := range map[storetest.Fate]error{
		storetest.Deliver: nil, storetest.LoseReply: lock.ErrOutcomeUnknown, storetest.Refuse: lock.ErrUnavailable,
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

// Each of the methods that some kinds have besides meets its fate.
func TestFlakyMethodsOfKinds(t *testing.T) {
	claims := []lock.Claim{{Name: "m", Kind: lock.Exclusive, Owner: "o", Count: 1, TTL: time.Hour}}
	for _, c := range []struct {
		op   storetest.Op
		call func(f *storetest.Flaky) error
		did  func(s *memstore.Store) bool
	}{
		{storetest.OpAcquireAll, func(f *storetest.Flaky) error {
			_, err := f.AcquireAll(t.Context(), claims)
			return err
		}, func(s *memstore.Store) bool {
			st, err := s.Look(t.Context(), "m")
			return err == nil && st.Held
		}},
		{storetest.OpEnlist, func(f *storetest.Flaky) error {
			_, err := f.Enlist(t.Context(), "n", []lock.Owner{"second"}, time.Hour)
			return err
		}, func(s *memstore.Store) bool { return queued(t, s) == 2 }},
		{storetest.OpLeave, func(f *storetest.Flaky) error {
			return f.Leave(t.Context(), "n", lock.Fair, []lock.Owner{"first"})
		}, func(s *memstore.Store) bool { return queued(t, s) == 0 }},
		{storetest.OpQueue, func(f *storetest.Flaky) error {
			_, err := f.Queue(t.Context(), "n", 0, 1)
			return err
		}, nil},
	} {
		for fate, want := range map[storetest.Fate]error{
			storetest.Deliver: nil, storetest.LoseReply: lock.ErrOutcomeUnknown, storetest.Refuse: lock.ErrUnavailable,
			storetest.LoseRequest: lock.ErrOutcomeUnknown, storetest.Delay: lock.ErrOutcomeUnknown,
		} {
			s := memstore.New()
			if _, err := s.Enlist(t.Context(), "n", []lock.Owner{"first"}, time.Hour); err != nil {
				t.Fatal(err)
			}
			f := storetest.NewFlaky(s)
			f.Next(c.op, fate)
			if err := c.call(f); !errors.Is(err, want) || f.Calls(c.op) != 1 {
				t.Errorf("operation %d, fate %d: got %v after %d calls, want %v", c.op, fate, err, f.Calls(c.op), want)
			}
			if c.did == nil {
				continue
			}
			if did := c.did(s); did != (fate == storetest.Deliver || fate == storetest.LoseReply) {
				t.Errorf("operation %d, fate %d: done is %v", c.op, fate, did)
			}
			if f.RunLate(t.Context()) > 0 && !c.did(s) {
				t.Errorf("operation %d: the late call did nothing", c.op)
			}
		}
	}
}

// queued is how many wait for "n".
func queued(t *testing.T, s *memstore.Store) uint32 {
	t.Helper()
	st, err := s.Look(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	return st.Queued
}
