package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// maxHolders is how many holders one call reads at most, so that Redis is busy with it for a short time only.
const maxHolders = 1000

// holderWidth is how many elements script/holders.lua answers for each holder.
const holderWidth = 4

// Holders implements lock.Store.
func (s *Store) Holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	hs, err := s.holders(ctx, name, min(max(size, 1), maxHolders))
	if err != nil {
		return nil, fmt.Errorf("holders of %q: %w", name, err)
	}
	return hs, nil
}

func (s *Store) holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	if err := script.Begin(ctx, lock.Exclusive); err != nil {
		return nil, err
	}
	n := s.Prefix + name
	a, err := s.Ask(pipe.As(ctx, forViews), s.Scripts.Holders.With([]string{n}, layout.HoldBase(n), size))
	if err != nil {
		return nil, err
	}
	var hs []lock.Holder
	for i := 0; i < len(a.List); i += holderWidth {
		h := lock.Holder{Owner: lock.Owner(a.Text(i)), Kind: kindsByName[a.Text(i+1)], TTL: script.TTL(a.Int(i + 3))}
		if count, err := strconv.ParseUint(a.Text(i+2), 10, 32); err == nil { // else not a count of Redisson's or ours
			h.Count = uint32(count)
		}
		hs = append(hs, h)
	}
	return hs, a.Err
}
