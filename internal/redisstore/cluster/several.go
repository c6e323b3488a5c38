package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// AcquireAll implements lock.Store. Names of one slot are taken by one script. Of several slots one is taken after the other, in the
// order of their numbers, which is the same for everybody; if one is refused, what was taken is given back at once.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	parts, err := s.bySlot(cs)
	if err != nil {
		return nil, err
	}
	gs := make([]lock.Grant, len(cs))
	var taken []int
	for _, part := range parts {
		some := make([]lock.Claim, len(part))
		for k, i := range part {
			some[k] = cs[i]
		}
		got, err := ask(ctx, s, some[0].Name, func(ctx context.Context, at *redisstore.Store) ([]lock.Grant, error) {
			return at.AcquireAll(ctx, some)
		})
		if err != nil {
			return nil, s.undo(ctx, returns(cs, gs, taken), err)
		}
		for k, i := range part {
			gs[i] = got[k]
		}
		taken = append(taken, part...)
	}
	return gs, nil
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
	slices.SortStableFunc(order, func(a, b int) int { return slots[a] - slots[b] })
	for k, i := range order {
		if k == 0 || slots[i] != slots[order[k-1]] {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], i)
	}
	return parts, nil
}

// returns are what gives some of the claims back.
func returns(cs []lock.Claim, gs []lock.Grant, taken []int) []lock.Return {
	rs := make([]lock.Return, len(taken))
	for k, i := range taken {
		rs[k] = lock.Return{Name: cs[i].Name, Kind: cs[i].Kind, Owner: cs[i].Owner, Fence: gs[i].Fence, Permits: cs[i].Permits}
	}
	return rs
}

// undo gives back what was taken before an error, and returns the error. If that cannot be done for sure, the outcome of all is
// unknown.
func (s *Store) undo(ctx context.Context, rs []lock.Return, cause error) error {
	errs := make([]error, len(rs))
	var wg sync.WaitGroup
	for i, r := range rs {
		wg.Go(func() {
			_, err := s.Release(context.WithoutCancel(ctx), r)
			if err != nil && !errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, lock.ErrStale) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: some names were taken and not given back: %v, after %v", lock.ErrOutcomeUnknown, err, cause) //nolint:errorlint // it is none of them any more
	}
	return cause
}
