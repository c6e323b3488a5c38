package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What an owner has at a member need not be the hold that it was granted. It may be left from an attempt that failed,
// and be released at any time. The fence tells the two apart. The caller of a unary lease does not know its fence: so
// the replica that prolongs the lease finds it out first, by pin.

// pin is the fence of a hold that a majority has, of members that vote. If there is none, or too few answer, pin raises
// the fence at a majority to a new one, which no release of a failed attempt has.
func (s *Store) pin(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	one, err := survey(ctx, s, "see the fence of", c.Name, c.Kind, func(ctx context.Context, m *member) (pinned, error) {
		f, err := m.Raise(ctx, c)
		if errors.Is(err, lock.ErrNotHeld) {
			return pinned{}, nil
		}
		return pinned{f, true}, err
	}, s.alike)
	switch {
	case err != nil:
		return 0, err
	case one.fence != 0:
		return one.fence, nil
	case !one.held:
		return 0, fmt.Errorf("%q: %w", c.Name, lock.ErrNotHeld)
	}
	c.Fence = s.fences.propose(time.Now())
	return s.raise(ctx, c)
}

// pinned is what an owner has of a hold at a member, or at a majority.
type pinned struct {
	fence lock.Fence // 0 if they differ
	held  bool
}

// alike is the hold that a majority has with the same fence, or no hold if no majority can have it.
func (s *Store) alike(said []vote[pinned]) (one pinned, agreed bool) {
	var fences []lock.Fence
	without := 0
	for _, v := range said {
		s.fences.saw(v.v.fence)
		switch {
		case !v.v.held:
			without++
		case v.v.fence != 0 && !s.quarantined(v.from):
			fences = append(fences, v.v.fence)
		}
	}
	f, n := commonest(fences)
	switch {
	case without > len(s.members)-s.quorum:
		return pinned{}, true
	case n >= s.quorum:
		return pinned{f, true}, true
	}
	return pinned{held: true}, false
}
