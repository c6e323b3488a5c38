package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// AcquireAll implements lock.Store. Names of one slot are taken by one script. Of several slots one is taken after the
// other, in the order of their numbers, which is the same for everybody; if one is refused, what was taken is
// undone at once.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	parts, err := s.bySlot(cs)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(s.patience(cs))
	gs := make([]lock.Grant, len(cs))
	var taken []int
	for n, part := range parts {
		got, err := []lock.Grant(nil), errTooSlow
		if n == 0 || time.Now().Before(end) {
			got, err = s.acquirePart(ctx, cs, part, len(parts) > 1)
		}
		if err != nil {
			return nil, s.undo(ctx, cs, gs, taken, err)
		}
		for k, i := range part {
			gs[i] = got[k]
		}
		taken = append(taken, part...)
	}
	for _, i := range taken {
		if s.abandoned.Has(cs[i], gs[i].Fence) {
			return nil, s.undo(ctx, cs, gs, taken, fmt.Errorf("%w: %w", lock.ErrUnavailable, redisstore.ErrAbandoned))
		}
	}
	return gs, nil
}

// errTooSlow: it took so long to take some names that the others are not asked for.
var errTooSlow = fmt.Errorf("%w: the nodes are too slow for so many names", lock.ErrUnavailable)

// patience is for how long names are taken, one slot after the other: half of the shortest lease, because what is taken
// first ends first.
func (s *Store) patience(cs []lock.Claim) time.Duration {
	shortest := time.Duration(math.MaxInt64)
	for _, c := range cs {
		shortest = min(shortest, c.TTL)
	}
	return max(shortest/2, s.within)
}

// acquirePart takes the names of one slot. If there are others, it asks once more when the outcome is unknown: a part
// that was taken all the same would keep everybody from its names while the request waits for another one.
func (s *Store) acquirePart(ctx context.Context, cs []lock.Claim, part []int, others bool) ([]lock.Grant, error) {
	some := make([]lock.Claim, len(part))
	for k, i := range part {
		some[k] = cs[i]
	}
	acquire := func() ([]lock.Grant, error) {
		return ask(ctx, s, some[0].Name, func(at *redisstore.Store) ([]lock.Grant, error) {
			return at.AcquireAll(ctx, some)
		})
	}
	got, err := acquire()
	if !others || ctx.Err() != nil || !errors.Is(err, lock.ErrOutcomeUnknown) {
		return got, err
	}
	if got, err = acquire(); err != nil && !errors.Is(err, lock.ErrOutcomeUnknown) {
		err = errors.Join(err, lock.ErrOutcomeUnknown) // the first call may be executed yet
	}
	return got, err
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

// undo undoes what was taken before an error, and returns the error. If that cannot be done for sure, the outcome
// of all is unknown.
func (s *Store) undo(ctx context.Context, cs []lock.Claim, gs []lock.Grant, taken []int, cause error) error {
	errs := make([]error, len(taken))
	var wg sync.WaitGroup
	for k, i := range taken {
		wg.Go(func() {
			c := cs[i]
			r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: gs[i].Fence, Permits: c.Permits}
			if _, err := s.Release(context.WithoutCancel(ctx), r); redisstore.Unsettled(err) {
				s.abandoned.Add(r, c.TTL)
				errs[k] = err
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		const said = "%w: some names were taken and not undone: %v, after %v"
		return fmt.Errorf(said, lock.ErrOutcomeUnknown, err, cause)
	}
	return cause
}
