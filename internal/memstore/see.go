package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// See implements lock.Store.
func (s *Store) See(ctx context.Context, name string) (lock.Sight, error) {
	if err := begin(ctx, lock.Exclusive); err != nil {
		return lock.Sight{}, fmt.Errorf("look who holds %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := lock.Sight{Tracked: true}
	if e := s.entries[name]; e != nil {
		now := time.Now()
		e.refresh(now)
		st.Fence, st.Holds = e.fence, e.seen(now)
	}
	if len(st.Holds) > lock.MaxSeen {
		st.Holds, st.Many = nil, true
	}
	return st, nil
}

// seen are the holds of a name that have not ended.
func (e *entry) seen(now time.Time) (holds []lock.SeenHold) {
	add := func(id string, f lock.Fence, until time.Time, permit bool) {
		if left := until.Sub(now); left > 0 {
			holds = append(holds, lock.SeenHold{ID: id, Fence: f, TTL: left, Permit: permit})
		}
	}
	if e.owner != "" {
		add("lock "+string(e.owner), e.fence, e.expires, false)
	}
	if l := e.shared; l != nil {
		if l.writer != "" {
			add("write "+string(l.writer), l.fence, l.expires, false)
		}
		for o, r := range l.readers {
			add("read "+string(o), r.fence, r.expires(), false)
		}
	}
	if e.permits != nil {
		last := make(map[lock.Owner]time.Time)
		for id, until := range e.permits.out {
			last[id.owner] = laterOf(last[id.owner], until)
		}
		for o, until := range last {
			add(lock.PermitsOf(o), 0, until, true)
		}
	}
	return holds
}
