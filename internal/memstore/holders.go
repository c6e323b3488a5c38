package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Holders implements lock.Store.
func (s *Store) Holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	if err := begin(ctx, lock.Exclusive); err != nil {
		return nil, fmt.Errorf("holders of %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, now := s.entries[name], time.Now()
	if e == nil {
		return nil, nil
	}
	e.refresh(now)
	hs := e.holders(now)
	return hs[:min(max(size, 1), len(hs))], nil
}

// holders are all who hold a name, but those of permits.
func (e *entry) holders(now time.Time) (hs []lock.Holder) {
	if e.owner != "" {
		return []lock.Holder{{Owner: e.owner, Kind: lock.Exclusive, Count: e.count, TTL: e.expires.Sub(now)}}
	}
	l := e.shared
	if l == nil {
		return nil
	}
	if l.writer != "" {
		hs = append(hs, lock.Holder{Owner: l.writer, Kind: lock.Write, Count: l.count, TTL: l.expires.Sub(now)})
	}
	readers := len(hs)
	for o := range l.readers {
		if r := l.reads(o, now); r != nil {
			hs = append(hs, lock.Holder{Owner: o, Kind: lock.Read, Count: r.count(), TTL: r.expires().Sub(now)})
		}
	}
	slices.SortFunc(hs[readers:], func(a, b lock.Holder) int { return cmp.Compare(a.Owner, b.Owner) })
	return hs
}
