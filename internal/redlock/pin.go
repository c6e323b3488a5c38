package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What an owner has at a member need not be the hold that it was told of. It may be of an attempt that failed, and its
// release may come to the member at any time. The fence tells the two apart. So whoever prolongs the hold of a caller
// that does not know its fence, that of a unary lease, learns it first.

// pin is the fence that a majority of the members that vote has. If there is none, or nobody can say it, a greater one
// is made that of a majority: no release of an attempt that failed has it.
func (s *Store) pin(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	one, err := survey(ctx, s, "see the fence of", c.Name, c.Kind, func(ctx context.Context, m *member) (pinnedAt, error) {
		f, err := m.Raise(ctx, c)
		if errors.Is(err, lock.ErrNotHeld) {
			return pinnedAt{}, nil
		}
		return pinnedAt{f, err == nil, !s.quarantined(m)}, err
	}, s.alike)
	switch {
	case err != nil:
		return 0, err
	case one.votes && one.held:
		return one.fence, nil
	case one.votes:
		return 0, fmt.Errorf("%q: %w", c.Name, lock.ErrNotHeld)
	}
	c.Fence = s.fences.propose(time.Now())
	return s.raise(ctx, c)
}

// pinnedAt is the hold of an owner at a member.
type pinnedAt struct {
	fence lock.Fence
	held  bool
	votes bool
}

// alike is what a majority has of a hold with the same fence, or that it is not held: no majority has it. It does not
// vote if they differ.
func (s *Store) alike(said []pinnedAt) (one pinnedAt, agreed bool) {
	var fences []lock.Fence
	without := 0
	for _, p := range said {
		s.fences.saw(p.fence)
		switch {
		case !p.held:
			without++
		case p.votes && p.fence != 0:
			fences = append(fences, p.fence)
		}
	}
	f, n := commonest(fences)
	switch {
	case without > len(s.members)-s.quorum:
		return pinnedAt{votes: true}, true
	case n >= s.quorum:
		return pinnedAt{f, true, true}, true
	}
	return pinnedAt{}, false
}
