package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockd-io/lockd/internal/limits"
)

// Page asks for a part of a list of holds.
type Page struct {
	Prefix string // of the names; empty for all
	After  string // the page before ended here; empty for the first page
	Size   int
}

// ListHolds asks what the session holds. The answer is HoldList or Failed. What is held all the while comes exactly
// once over the pages; what is taken or ends meanwhile may come or not.
func (s *Session) ListHolds(id uint64, p Page) {
	s.Ask(id, nil, func() {
		if s.out.pages() >= limits.Pages {
			s.Fail(id, s.of.cfg.Denied("pages", limits.Pages))
			return
		}
		locks, next := s.holds(p)
		s.Tell(HoldList{ID: id, Locks: locks, Next: next})
	})
}

// listed is a lease with its place in a list: by name, then by kind and holder.
type listed struct {
	place string
	lease Lease
}

// holds is one page. All that does not change is looked at without a mutex.
func (s *Session) holds(p Page) (page []HeldLock, next string) {
	var found []listed
	for _, l := range s.Leases() {
		h := l.Hold()
		if !strings.HasPrefix(h.Name, p.Prefix) {
			continue
		}
		if place := fmt.Sprintf("%s\x00%d%s", h.Name, h.Kind, h.Holder); place > p.After {
			found = append(found, listed{place, l})
		}
	}
	slices.SortFunc(found, func(a, c listed) int { return strings.Compare(a.place, c.place) })
	if len(found) > p.Size {
		found = found[:p.Size]
		next = found[p.Size-1].place
	}
	for _, f := range found {
		page = describe(page, f.lease)
	}
	return page, next
}

// describe adds a lease to a page, if it is still held.
func describe(page []HeldLock, l Lease) []HeldLock {
	if h, held := l.Describe(); held {
		page = append(page, h)
	}
	return page
}

// Resumed are the holds of a session that has just come.
func (s *Session) Resumed() (all []HeldLock) {
	for _, l := range s.Leases() {
		all = describe(all, l)
	}
	return all
}
