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

// buggy is a Store of which some methods have a bug: those that are not nil.
type buggy struct {
	*memstore.Store
	acquire    func(s *memstore.Store, c lock.Claim) (lock.Grant, error)
	acquireAll func(s *memstore.Store, cs []lock.Claim) ([]lock.Grant, error)
	release    func(s *memstore.Store, r lock.Return) (lock.Returned, error)
	renew      func(s *memstore.Store, r *lock.Renewal)
	staying    bool // nobody can leave
}

func (b buggy) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	if b.acquire == nil {
		b.Store.StartAcquire(c, done)
		return
	}
	go func() { done(b.acquire(b.Store, c)) }()
}

func (b buggy) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if b.release == nil {
		b.Store.StartRelease(r, done)
		return
	}
	go func() { done(b.release(b.Store, r)) }()
}

func (b buggy) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	if b.acquireAll != nil {
		return b.acquireAll(b.Store, cs)
	}
	return b.Store.AcquireAll(ctx, cs)
}

func (b buggy) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	rs = slices.Clone(rs)
	for i := range rs {
		if b.renew != nil {
			b.renew(b.Store, &rs[i])
		}
	}
	b.Store.Renew(ctx, rs, done)
}

func (b buggy) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	if b.staying {
		return nil
	}
	return b.Store.Leave(ctx, name, kind, owners)
}

// The comparison is worth something only if it sees bugs.
func TestPlantedBugsAreFound(t *testing.T) {
	ctx := t.Context()
	look := func(s *memstore.Store, name string) lock.State {
		st, _ := s.Look(ctx, name)
		return st
	}
	counted := map[string]int{}
	for name, bug := range map[string]buggy{
		"a renewal that adds up": {renew: func(s *memstore.Store, r *lock.Renewal) {
			if st := look(s, r.Name); st.Held && r.TTL > 0 {
				r.TTL += st.TTL
			}
		}},
		"a release without a fence": {release: func(s *memstore.Store, r lock.Return) (lock.Returned, error) {
			r.Fence = 0
			return lock.Await(ctx, s.StartRelease, r)
		}},
		"a hold that is counted": {acquire: func(s *memstore.Store, c lock.Claim) (lock.Grant, error) {
			again := look(s, c.Name).Owner == c.Owner
			g, err := lock.Await(ctx, s.StartAcquire, c)
			if err == nil && again {
				counted[c.Name]++
			}
			return g, err
		}, release: func(s *memstore.Store, r lock.Return) (lock.Returned, error) {
			if counted[r.Name] > 0 && look(s, r.Name).Owner == r.Owner {
				counted[r.Name]--
				return lock.Returned{}, nil
			}
			return lock.Await(ctx, s.StartRelease, r)
		}},
		"a handoff done once": {release: func(s *memstore.Store, r lock.Return) (lock.Returned, error) {
			if st := look(s, r.Name); r.Next != nil && st.Owner == r.Next.Owner && st.Owner != r.Owner {
				return lock.Returned{}, lock.ErrNotHeld
			}
			return lock.Await(ctx, s.StartRelease, r)
		}},
		"a writer beside readers": {acquire: func(s *memstore.Store, c lock.Claim) (lock.Grant, error) {
			if c.Kind == lock.Write && look(s, c.Name).Kind == lock.Read {
				_, _ = s.ForceRelease(ctx, c.Name, lock.Read) // the bug
			}
			return lock.Await(ctx, s.StartAcquire, c)
		}},
		"a reader before a writer that waits": {acquire: func(s *memstore.Store, c lock.Claim) (lock.Grant, error) {
			g, err := lock.Await(ctx, s.StartAcquire, c)
			if held, ok := errors.AsType[*lock.HeldError](err); ok && c.Kind == lock.Read {
				_ = s.Leave(ctx, c.Name, lock.Write, []lock.Owner{held.HeldBy})
				return lock.Await(ctx, s.StartAcquire, c)
			}
			return g, err
		}},
		"reads that end with the write": {release: func(s *memstore.Store, r lock.Return) (lock.Returned, error) {
			res, err := lock.Await(ctx, s.StartRelease, r)
			if err == nil && r.Kind == lock.Write {
				_, _ = s.ForceRelease(ctx, r.Name, lock.Read)
			}
			return res, err
		}},
		"a read repeated with a new fence": {acquire: func(s *memstore.Store, c lock.Claim) (lock.Grant, error) {
			if c.Kind == lock.Read {
				_, _ = lock.Await(ctx, s.StartRelease, lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner})
			}
			return lock.Await(ctx, s.StartAcquire, c)
		}},
		"a permit that is lost": {release: func(s *memstore.Store, r lock.Return) (lock.Returned, error) {
			res, err := lock.Await(ctx, s.StartRelease, r)
			if err == nil && r.Kind == lock.Semaphore && r.Permits > 1 {
				lost := lock.Claim{Name: r.Name, Kind: r.Kind, Owner: "nobody", TTL: time.Hour, Permits: 1}
				_, _ = lock.Await(ctx, s.StartAcquire, lost)
			}
			return res, err
		}},
		"a limit that is not kept": {acquire: func(s *memstore.Store, c lock.Claim) (lock.Grant, error) {
			if look(s, c.Name).Limit > 0 {
				c.Limit = 0
			}
			return lock.Await(ctx, s.StartAcquire, c)
		}},
		"fair waiters out of order": {acquire: func(s *memstore.Store, c lock.Claim) (lock.Grant, error) {
			if c.Kind == lock.Fair && c.Place == 0 {
				c.Kind = lock.Exclusive
			}
			return lock.Await(ctx, s.StartAcquire, c)
		}},
		"a place behind at each refusal": {acquire: func(s *memstore.Store, c lock.Claim) (lock.Grant, error) {
			g, err := lock.Await(ctx, s.StartAcquire, c)
			if errors.Is(err, lock.ErrHeld) && c.Kind == lock.Fair && c.Place > 0 {
				_ = s.Leave(ctx, c.Name, c.Kind, []lock.Owner{c.Owner})
				return lock.Await(ctx, s.StartAcquire, c)
			}
			return g, err
		}},
		"a place that outlives a release": {release: func(s *memstore.Store, r lock.Return) (lock.Returned, error) {
			if r.Kind.Placed() && r.Next == nil && look(s, r.Name).Owner != r.Owner {
				return lock.Returned{}, lock.ErrNotHeld
			}
			return lock.Await(ctx, s.StartRelease, r)
		}},
		"places that nobody can leave": {staying: true},
		"some of several": {acquireAll: func(s *memstore.Store, cs []lock.Claim) ([]lock.Grant, error) {
			gs, err := s.AcquireAll(ctx, cs)
			if err != nil {
				_, _ = lock.Await(ctx, s.StartAcquire, cs[0])
			}
			return gs, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := memstore.New(), memstore.New()
			bug.Store = b
			err := storetest.Compare(ctx, rigOf(a, a), rigOf(b, bug), 1, 20_000)
			if err == nil {
				t.Fatal("the bug was not found")
			}
			t.Log(err)
		})
	}
}
