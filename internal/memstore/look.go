package memstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// cursorMark begins each cursor; the last name of the page follows.
const cursorMark = "after:"

// Look implements broker.Store.
func (s *Store) Look(ctx context.Context, name string) (broker.State, error) {
	if err := begin(ctx, broker.Exclusive); err != nil {
		return broker.State{}, fmt.Errorf("look at %q: %w", name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e != nil && e.occupied {
		return broker.State{}, fmt.Errorf("look at %q: %w", name, broker.ErrKindMismatch)
	}
	return e.state(name, time.Now()), nil
}

// state is what is known of a name; e may be nil.
func (e *entry) state(name string, now time.Time) broker.State {
	st := broker.State{Name: name}
	if e != nil {
		st.Fence = e.fence
	}
	if e.held(now) {
		st.Kind, st.Held, st.Owner, st.Count = broker.Exclusive, true, e.owner, e.count
		st.TTL = e.expires.Sub(now)
	}
	return st
}

// List implements broker.Store. It goes through all entries each time, in the order of their names, so that a name
// that is held all the while comes exactly once.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) ([]broker.State, string, error) {
	if err := begin(ctx, broker.Exclusive); err != nil {
		return nil, "", fmt.Errorf("list %q: %w", prefix, err)
	}
	after, known := strings.CutPrefix(cursor, cursorMark)
	if cursor != "" && !known {
		bad := &broker.InvalidError{Field: "page_token", Reason: broker.ReasonPage, Detail: "not a page token of this store"}
		return nil, "", fmt.Errorf("list %q: %w", prefix, bad)
	}
	page := s.heldAfter(prefix, after, known)
	slices.SortFunc(page, func(a, b broker.State) int { return strings.Compare(a.Name, b.Name) })
	if size = max(size, 1); len(page) > size {
		return page[:size:size], cursorMark + page[size-1].Name, nil
	}
	return page, "", nil
}

// heldAfter returns all held names with a prefix that sort after another, in no order.
func (s *Store) heldAfter(prefix, after string, bounded bool) []broker.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var found []broker.State
	for name, e := range s.entries {
		if strings.HasPrefix(name, prefix) && e.held(now) && (!bounded || name > after) {
			found = append(found, e.state(name, now))
		}
	}
	return found
}
