package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// cursorMark begins each cursor; the last name of the page follows.
const cursorMark = "after:"

// Look implements lock.Store.
func (s *Store) Look(ctx context.Context, name string) (lock.State, error) {
	return do(ctx, s, "look at", name, lock.Exclusive, func(w *work) (lock.State, error) {
		e := w.find(name)
		if e.occupied {
			return lock.State{}, lock.ErrKindMismatch
		}
		return e.state(w.now), nil
	})
}

// state is what is known of a name.
func (e *entry) state(now time.Time) lock.State {
	e.refresh(now)
	st := lock.State{Name: e.name, Fence: e.fence, Queued: uint32(len(e.queue.order))} //nolint:gosec // never as many
	switch first, last := e.reads(); {
	case e.owner != "": // whoever reads beside a writer is the writer itself
		st.Kind, st.Held, st.Owner, st.Count, st.Holders, st.TTL = e.kind(), true, e.owner, 1, 1, e.expires.Sub(now)
	case first != "":
		st.Kind, st.Held, st.Owner, st.Count, st.TTL = lock.Read, true, first, 1, last.Sub(now)
		st.Holders = uint32(len(e.readers)) //nolint:gosec // never as many
	case e.permits != nil:
		st.Kind, st.Limit = lock.Semaphore, e.permits.limit()
		for _, until := range e.permits.out {
			if left := until.Sub(now); left > 0 {
				st.Held = true
				st.Holders++
				st.TTL = max(st.TTL, left)
			}
		}
	}
	if st.Queued > 0 && st.Kind <= lock.Exclusive {
		st.Kind = lock.Fair
	}
	return st
}

// kind is the kind of the owner's hold. A fair hold cannot be told from an exclusive one.
func (h *hold) kind() lock.Kind {
	if h.shared {
		return lock.Write
	}
	return lock.Exclusive
}

// Holders implements lock.Store.
func (s *Store) Holders(ctx context.Context, name string, size int) ([]lock.Holder, error) {
	return do(ctx, s, "holders of", name, lock.Exclusive, func(w *work) ([]lock.Holder, error) {
		hs := w.find(name).holders(w.now)
		return hs[:min(max(size, 1), len(hs))], nil
	})
}

// holders are all holders of a lock: the owner, then the readers by name.
func (h *hold) holders(now time.Time) (hs []lock.Holder) {
	if h.owner != "" {
		hs = append(hs, lock.Holder{Owner: h.owner, Kind: h.kind(), Count: 1, TTL: h.expires.Sub(now)})
	}
	for _, o := range slices.Sorted(maps.Keys(h.readers)) {
		hs = append(hs, lock.Holder{Owner: o, Kind: lock.Read, Count: 1, TTL: h.readers[o].expires.Sub(now)})
	}
	return hs
}

// See implements lock.Store.
func (s *Store) See(ctx context.Context, name string) (lock.Seen, error) {
	return do(ctx, s, "look who holds", name, lock.Exclusive, func(w *work) (lock.Seen, error) {
		e := w.find(name)
		st := lock.Seen{Tracked: true, Fence: e.fence, Holds: e.seen(w.now)}
		if len(st.Holds) > lock.MaxSeen {
			st.Holds, st.Many = nil, true
		}
		return st, nil
	})
}

// seen are the holds of a name that have not ended.
func (e *entry) seen(now time.Time) (holds []lock.SeenHold) {
	for _, h := range e.holders(now) {
		fence, prefix := e.own, map[lock.Kind]string{lock.Exclusive: "lock ", lock.Read: "read ", lock.Write: "write "}
		if h.Kind == lock.Read {
			fence = e.readers[h.Owner].fence
		}
		holds = append(holds, lock.SeenHold{ID: prefix[h.Kind] + string(h.Owner), Fence: fence, TTL: h.TTL})
	}
	if e.permits == nil {
		return holds
	}
	last := make(map[lock.Owner]time.Time)
	for id, until := range e.permits.out {
		last[id.owner] = laterOf(last[id.owner], until)
	}
	for o, until := range last {
		if left := until.Sub(now); left > 0 {
			holds = append(holds, lock.SeenHold{ID: lock.PermitsOf(o), TTL: left, Permit: true})
		}
	}
	return holds
}

// List implements lock.Store. It goes through all entries each time. Pages are in the order of names, so a name that is
// held all the while comes exactly once.
func (s *Store) List(ctx context.Context, prefix, cursor string, size int) (page []lock.State, next string, err error) {
	after, known := strings.CutPrefix(cursor, cursorMark)
	page, err = do(ctx, s, "list", prefix, lock.Exclusive, func(w *work) (held []lock.State, err error) {
		if cursor != "" && !known {
			return nil, lock.Invalid("page_token", lock.ReasonPage, "not a page token of this store")
		}
		for name, e := range w.entries {
			if !strings.HasPrefix(name, prefix) || known && name <= after {
				continue
			}
			if st := e.state(w.now); st.Held {
				held = append(held, st)
			}
		}
		return held, nil
	})
	slices.SortFunc(page, func(a, b lock.State) int { return strings.Compare(a.Name, b.Name) })
	if size = max(size, 1); len(page) > size {
		page, next = page[:size:size], cursorMark+page[size-1].Name
	}
	return page, next, err
}
