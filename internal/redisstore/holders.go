package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxHolders is how many holders one call reads at most, so that Redis is busy with it for a short time only.
const maxHolders = 1000

// holderWidth is how many elements holders.lua answers for each holder.
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
	if err := begin(ctx, lock.Exclusive); err != nil {
		return nil, err
	}
	n := s.prefix + name
	a, err := s.ask(ctx, s.scripts.holders.with([]string{n}, holdBase(n), size))
	if err != nil {
		return nil, err
	}
	var hs []lock.Holder
	for i := 0; i < len(a.list); i += holderWidth {
		h := lock.Holder{Owner: lock.Owner(a.text(i)), Kind: kindsByName[a.text(i+1)], TTL: ttlOf(a.int(i + 3))}
		if count, err := strconv.ParseUint(a.text(i+2), 10, 32); err == nil { // else not a count of Redisson's or ours
			h.Count = uint32(count)
		}
		hs = append(hs, h)
	}
	return hs, a.err
}
