package redisstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// AcquireAll implements lock.Store. All names are taken by one script, so they must be on one server.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	gs, err := s.acquireAll(ctx, cs)
	if err != nil {
		return nil, fmt.Errorf("acquire %d names: %w", len(cs), err)
	}
	return gs, nil
}

func (s *Store) acquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	for _, c := range cs {
		if err := lock.Begin(ctx, c.Kind); err != nil {
			return nil, err
		}
	}
	if len(cs) == 0 {
		return nil, nil
	}
	call := s.acquireAllCall(cs...).As(cs[0].Owner.For(cs[0].Tenant))
	call.Grants = true
	a, err := s.Ask(ctx, call)
	if err != nil {
		return nil, err
	}
	if a.Code() != script.Done {
		i, at := 1, 1 // with one claim the answer has no number
		if len(cs) > 1 {
			i, at = int(a.Int(1)), 2
		}
		if i < 1 || i > len(cs) {
			a.Bad(1)
			return nil, a.Err
		}
		return nil, a.Denial(at, cs[i-1].Name)
	}
	gs := make([]lock.Grant, len(cs))
	for i := range gs {
		gs[i] = lock.Grant{Fence: a.Fence(1 + 2*i), TTL: script.TTL(a.Int(2 + 2*i))}
	}
	return gs, cmp.Or(a.Err, a.Few)
}
