package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// AcquireAll implements lock.Store. One script takes the names of one slot. Several slots are taken one after the
// other, in the order of their numbers, which is the same for everybody. If one is refused, those before it were taken
// in vain (lock.ErrInVain).
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	parts, err := s.bySlot(cs)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(s.patience(cs))
	gs := make([]lock.Grant, len(cs))
	for n, part := range parts {
		got, err := []lock.Grant(nil), errTooSlow
		if n == 0 || time.Now().Before(end) {
			some := make([]lock.Claim, len(part))
			for k, i := range part {
				some[k] = cs[i]
			}
			got, err = ask(ctx, s, some[0].Name, func(at *redisstore.Store) ([]lock.Grant, error) {
				return at.AcquireAll(ctx, some)
			})
		}
		switch {
		case err != nil && n > 0:
			return nil, fmt.Errorf("%w: %w", lock.ErrInVain, err)
		case err != nil:
			return nil, err
		}
		for k, i := range part {
			gs[i] = got[k]
		}
	}
	return gs, nil
}

// errTooSlow: taking some of the names took so long that the others are not asked for.
var errTooSlow = fmt.Errorf("%w: the nodes are too slow for so many names", lock.ErrUnavailable)

// patience is for how long AcquireAll goes on to the next slot: half of the shortest lease, because the leases that
// were taken first run meanwhile.
func (s *Store) patience(cs []lock.Claim) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, c := range cs {
		shortest = min(shortest, c.TTL)
	}
	return max(shortest/2, s.within)
}

// bySlot are the indexes of the claims of each slot, in the order of the slots.
func (s *Store) bySlot(cs []lock.Claim) (parts [][]int, err error) {
	slots := make([]int, len(cs))
	order := make([]int, len(cs))
	for i, c := range cs {
		if slots[i], err = s.slotOf(c.Name); err != nil {
			return nil, err
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(slots[a], slots[b]) })
	for k, i := range order {
		if k == 0 || slots[i] != slots[order[k-1]] {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], i)
	}
	return parts, nil
}
