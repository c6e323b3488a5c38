package redisstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// AcquireAll implements lock.Store. All names are taken by one script, so they must be on one server.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	gs, err := s.acquireAll(ctx, cs)
	if err = s.keptAll(cs, gs, err); err != nil {
		return nil, fmt.Errorf("acquire %d names: %w", len(cs), err)
	}
	return gs, nil
}

func (s *Store) acquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	keys := make([]string, 0, 3*len(cs))
	args := make([]any, 0, 1+7*len(cs))
	args = append(args, s.FenceMillis)
	permits := uint32(0)
	for _, c := range cs {
		if err := script.Begin(ctx, c.Kind); err != nil {
			return nil, err
		}
		permits += c.Permits
		n := s.Prefix + c.Name
		keys = append(keys, layout.Keys(c.Kind, n)...)
		args = append(args, c.Kind.String(), string(c.Owner), script.Millis(c.TTL), uint64(c.Fence))
		args = append(args, partOfAll(c, n)...)
	}
	if len(cs) == 0 {
		return nil, nil
	}
	call := s.Scripts.AcquireAll.With(keys, args...)
	call.Cost, call.Grants = call.Cost+script.CostOfPermits(permits), true
	a, err := s.Ask(ctx, call.As(cs[0].For()))
	if err != nil {
		return nil, err
	}
	i := int(a.Int(1))
	if a.Code() != script.Done {
		if i < 1 || i > len(cs) {
			a.Bad(1)
			return nil, a.Err
		}
		return nil, a.Denial(2, cs[i-1].Name)
	}
	gs := make([]lock.Grant, len(cs))
	for i := range gs {
		gs[i] = lock.Grant{Fence: a.Fence(2 + 2*i), TTL: script.TTL(a.Int(3 + 2*i))}
	}
	return gs, cmp.Or(a.Err, a.Few)
}

// partOfAll is what script/acquire_all.lua is told of a claim of N besides its kind, owner, TTL and fence.
func partOfAll(c lock.Claim, n string) []any {
	switch c.Kind {
	case lock.Fair:
		return []any{layout.Channel(n), "", ""}
	case lock.Read, lock.Write:
		return []any{string(c.WriteOwner), layout.HoldBase(n), ""}
	case lock.Semaphore:
		return []any{max(c.Permits, 1), c.Limit, layout.PermitChannel(n)}
	default:
		return []any{"", "", ""}
	}
}
