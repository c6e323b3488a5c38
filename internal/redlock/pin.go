package redlock

import (
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What an owner has at a member need not be the hold that it was told of. It may be of an attempt that failed, and its
// release may come to the member at any time. The fence tells the two apart. So a hold is prolonged by its fence also
// for a caller that does not know it: that of a unary lease.

// unpinned says whether a renewal is of such a caller, and prolongs something.
func (s *Store) unpinned(r lock.Renewal) bool {
	return r.Fence == 0 && r.TTL > 0 && r.Owner.Repeats() && !s.cfg.bugs.anyFence
}

// pinned is a renewal with the fence that a majority of the members has, for a caller that brings none.
func (s *Store) pinned(ctx context.Context, r lock.Renewal) (lock.Renewal, error) {
	fence, err := s.pin(ctx, r)
	switch {
	case err == nil:
		r.Fence = fence
		return r, nil
	case failed(err):
		return r, renewFailed(r.Name, err)
	}
	r.TTL = 0 // who only verifies it is told why it is gone
	if _, err = s.Extend(ctx, r); err == nil {
		err = renewFailed(r.Name, errUnclear) // it was taken in this moment
	}
	return r, err
}

// pin is the fence that a majority of the members that vote has. If there is none, or nobody can say it, a greater one
// is made that of a majority: no release of an attempt that failed has it.
func (s *Store) pin(ctx context.Context, r lock.Renewal) (lock.Fence, error) {
	if r.Kind != lock.Read { // of a reader nobody tells it
		one, err := survey(ctx, s, looking(r.Name), func(said []seen) (seen, bool) { return s.alike(said, r.Owner) })
		if err != nil || one.Held {
			return one.Fence, err
		}
	}
	c := lock.Claim{Name: r.Name, Kind: r.Kind, Owner: r.Owner, Count: 1, Fence: s.fences.propose(time.Now())}
	return c.Fence, s.ask(ctx, "raise the fence of", r.Name, r.Kind, func(ctx context.Context, m *member) error {
		return s.sworn(m, m.Raise(ctx, c))
	})
}

// alike is what a majority has of an owner's hold with the same fence. It is not held if there is none.
func (s *Store) alike(said []seen, o lock.Owner) (one seen, agreed bool) {
	counts := map[lock.Fence]int{}
	for _, st := range said {
		s.fences.saw(st.Fence)
		if st.Held && st.Owner == o && !s.quarantined(st.from) {
			if counts[st.Fence]++; counts[st.Fence] >= s.quorum {
				return st, true
			}
		}
	}
	return seen{}, false
}
