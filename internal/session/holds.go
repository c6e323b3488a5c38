package session

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Page asks for a part of a list of holds.
type Page struct {
	Prefix string // of the names; empty for all
	After  string // the page before ended here; empty for the first page
	Size   int
}

// walkPause is between two parts of a walk along many leases.
const walkPause = time.Millisecond

// ListHolds asks what the session holds. The answer is HoldList or Failed. What is held all the while comes exactly
// once over the pages; what is taken or ends meanwhile may come or not.
func (s *Session) ListHolds(id uint64, p Page) {
	s.Ask(id, nil, func() {
		list, err := HoldList{ID: id}, s.hasRoomForPage()
		if err == nil {
			list.Locks, list.Next = s.holds(p)
		}
		s.Answer(id, list, err)
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
	for _, l := range s.walk() {
		h := l.Hold()
		if !strings.HasPrefix(h.Name, p.Prefix) {
			continue
		}
		if place := fmt.Sprintf("%s\x00%d%s", h.Name, h.Kind, h.Holder); place > p.After {
			found = append(found, listed{place, l})
		}
	}
	slices.SortFunc(found, func(a, c listed) int { return strings.Compare(a.place, c.place) })
	found = slices.Compact(found)
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

// walkStep is how many leases are looked at in one go under the mutex. Walks that need more let everybody else have it
// in between.
const walkStep = 500

// walk returns the leases, in no order. It goes from the last one to the first: a lease that leaves is replaced by the
// last one, so nothing that stays is missed, but it may be met twice.
func (s *Session) walk() (found []Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := len(s.list); end > 0; {
		from := max(end-walkStep, 0)
		found = append(found, s.list[from:end]...)
		if from == 0 {
			break
		}
		s.mu.Unlock()
		s.of.pause(walkPause)
		s.mu.Lock()
		end = min(from, len(s.list))
	}
	return found
}

// Resumed are the holds of a session that has just come.
func (s *Session) Resumed() (all []HeldLock) {
	for _, l := range s.Leases() {
		all = describe(all, l)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.anchorLocked(all)
	return all
}
