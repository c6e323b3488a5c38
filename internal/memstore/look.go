package memstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// cursorMark begins each cursor; the last name of the page follows.
const cursorMark = "after:"

// Look implements lock.Store.
func (s *Store) Look(ctx context.Context, name string) (lock.State, error) {
	if err := begin(ctx, lock.Exclusive); err != nil {
		return lock.State{}, fmt.Errorf("look at %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return lock.State{Name: name}, nil
	}
	if e.occupied {
		return lock.State{}, fmt.Errorf("look at %q: %w", name, lock.ErrKindMismatch)
	}
	return e.state(time.Now()), nil
}

// state is what is known of a name.
func (e *entry) state(now time.Time) lock.State {
	e.refresh(now)
	st := lock.State{Name: e.name, Fence: e.fence, Queued: uint32(e.line.len())} //nolint:gosec // never as many
	switch {
	case e.owner != "":
		st.Kind, st.Held, st.Owner, st.Count, st.Holders = lock.Exclusive, true, e.owner, e.count, 1
		st.TTL = e.expires.Sub(now)
	case e.shared != nil:
		e.shared.describe(&st, now)
	case e.permits != nil:
		e.permits.describe(&st, now)
	}
	if st.Queued > 0 && st.Kind <= lock.Exclusive {
		st.Kind = lock.Fair
	}
	return st
}

func (l *readWrite) describe(st *lock.State, now time.Time) {
	first, n, left := l.alive(now)
	if l.writer == "" {
		if n > 0 {
			st.Kind, st.Held, st.Owner, st.Count = lock.Read, true, first, l.readers[first].count()
			st.Holders, st.TTL = n, left
		}
		return
	}
	st.Kind, st.Held, st.Owner, st.Count = lock.Write, true, l.writer, l.count
	st.Holders, st.TTL = 1, l.expires.Sub(now) // whoever reads beside a writer is the writer itself
}

func (p *semaphore) describe(st *lock.State, now time.Time) {
	st.Kind, st.Limit = lock.Semaphore, p.limit()
	for _, until := range p.out {
		if left := until.Sub(now); left > 0 {
			st.Held = true
			st.Holders++
			st.TTL = max(st.TTL, left)
		}
	}
}

// List implements lock.Store. It goes through all entries each time, in the order of their names, so that a name
// that is held all the while comes exactly once.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]lock.State, string, error) {
	if err := begin(ctx, lock.Exclusive); err != nil {
		return nil, "", fmt.Errorf("list %q: %w", prefix, err)
	}
	after, known := strings.CutPrefix(cursor, cursorMark)
	if cursor != "" && !known {
		bad := &lock.InvalidError{Field: "page_token", Reason: lock.ReasonPage, Detail: "not a page token of this store"}
		return nil, "", fmt.Errorf("list %q: %w", prefix, bad)
	}
	page := s.heldAfter(prefix, after, known)
	slices.SortFunc(page, func(a, b lock.State) int { return strings.Compare(a.Name, b.Name) })
	if size = max(size, 1); len(page) > size {
		return page[:size:size], cursorMark + page[size-1].Name, nil
	}
	return page, "", nil
}

// heldAfter returns all held names with a prefix that sort after another, in no order.
func (s *Store) heldAfter(prefix, after string, bounded bool) []lock.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var found []lock.State
	for name, e := range s.entries {
		if !strings.HasPrefix(name, prefix) || bounded && name <= after {
			continue
		}
		if st := e.state(now); st.Held {
			found = append(found, st)
		}
	}
	return found
}
