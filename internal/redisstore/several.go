package redisstore

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
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
	keys := make([]string, 0, 3*len(cs))
	args := make([]any, 0, 1+6*len(cs))
	args = append(args, s.fenceMillis)
	permits := uint32(0)
	for _, c := range cs {
		if err := begin(ctx, c.Kind); err != nil {
			return nil, err
		}
		permits += c.Permits
		ks, rest := s.partOfAll(c)
		keys = append(keys, ks...)
		args = append(args, c.Kind.String(), string(c.Owner), millis(c.TTL), rest[0], rest[1], rest[2])
	}
	if len(cs) == 0 {
		return nil, nil
	}
	call := s.scripts.acquireAll.with(keys, args...)
	call.cost += costOfPermits(permits)
	a, err := s.ask(ctx, call)
	if err != nil {
		return nil, err
	}
	i := int(a.int(1))
	if a.code() != answerDone {
		if i < 1 || i > len(cs) {
			a.bad(1)
			return nil, a.err
		}
		return nil, a.denial(2, cs[i-1].Name)
	}
	gs := make([]lock.Grant, len(cs))
	for i := range gs {
		gs[i] = lock.Grant{Fence: a.fence(2 + 2*i), TTL: ttlOf(a.int(3 + 2*i))}
	}
	return gs, a.err
}

// partOfAll is what acquire_all.lua is told of a claim besides its kind, owner and TTL.
func (s *Store) partOfAll(c lock.Claim) (keys []string, rest [3]any) {
	n := s.prefix + c.Name
	switch c.Kind {
	case lock.Fair:
		return fairKeys(n), [3]any{channelKey(n), "", ""}
	case lock.Read:
		return rwKeys(n), [3]any{string(c.Beside), holdBase(n), ""}
	case lock.Write:
		return rwKeys(n), [3]any{"", holdBase(n), ""}
	case lock.Semaphore:
		return permitKeys(n), [3]any{max(c.Permits, 1), c.Limit, permitChannel(n)}
	default:
		return plainKeys(n), [3]any{"", "", ""}
	}
}
