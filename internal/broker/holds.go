package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// HoldsRequest asks what a session holds.
type HoldsRequest struct {
	Prefix string // of the names; empty for all
	After  string // the page before ended here; empty for the first page
	Size   int
}

// HeldLock is a lock that a session holds.
type HeldLock struct {
	Hold     Hold
	Validity Validity
	Count    uint32
	Auto     bool
	Permits  uint32 // of a semaphore
}

const (
	// walkStep is how many leases are looked at in one go under Broker.mu. Walks that need more make pauses, in which
	// everybody else has the mutex.
	walkStep  = 500
	walkPause = time.Millisecond
	// maxPages is how many pages of holds may be in an outbox that the client does not read.
	maxPages = 16
)

// ListHolds asks what the session holds. The answer is HoldList or Failed. What is held all the while comes exactly once
// over the pages; what is taken or ends meanwhile may come or not.
func (s *Session) ListHolds(id uint64, req HoldsRequest) {
	s.ask(id, nil, func() {
		list := HoldList{ID: id}
		if s.out.pages() >= maxPages {
			s.answer(id, list, s.b.metrics.denied("pages", maxPages))
			return
		}
		list.Locks, list.Next = s.holds(req)
		s.answer(id, list, nil)
	})
}

// placed is a lease with its place in a list: by name, then by kind and holder.
type placed struct {
	place string
	lease *Lease
}

// holds is one page. All that does not change is looked at without Broker.mu.
func (s *Session) holds(req HoldsRequest) (page []HeldLock, next string) {
	var found []placed
	for _, l := range s.walk() {
		if !strings.HasPrefix(l.name, req.Prefix) {
			continue
		}
		if p := fmt.Sprintf("%s\x00%d%s", l.name, l.kind, l.holder); p > req.After {
			found = append(found, placed{p, l})
		}
	}
	slices.SortFunc(found, func(a, c placed) int { return strings.Compare(a.place, c.place) })
	found = slices.Compact(found)
	if len(found) > req.Size {
		found = found[:req.Size]
		next = found[req.Size-1].place
	}
	for some := range slices.Chunk(found, walkStep) {
		page = append(page, s.describe(some)...)
	}
	return page, next
}

// describe tells of those leases that are still held.
func (s *Session) describe(ls []placed) (locks []HeldLock) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	for _, p := range ls {
		if l := p.lease; !l.over {
			locks = append(locks, HeldLock{
				Hold: l.hold(), Validity: s.validityLocked(l.until), Count: l.count, Auto: l.auto, Permits: l.permits,
			})
		}
	}
	return locks
}

// walk returns the leases of a session, in no order. It goes from the last one to the first: a lease that leaves is
// replaced by the last one, so nothing that stays is missed, but it may be met twice.
func (s *Session) walk() (found []*Lease) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for end := len(s.list); end > 0; {
		from := max(end-walkStep, 0)
		found = append(found, s.list[from:end]...)
		if from == 0 {
			break
		}
		b.mu.Unlock()
		b.pause(walkPause)
		b.mu.Lock()
		end = min(from, len(s.list))
	}
	return found
}

// listLocked and unlistLocked keep the list of a session's leases.
func (s *Session) listLocked(l *Lease) {
	l.at = uint32(len(s.list)) //nolint:gosec // bounded by limits.locks_per_session
	s.list = append(s.list, l)
}

func (s *Session) unlistLocked(l *Lease) {
	last := s.list[len(s.list)-1]
	s.list[l.at], last.at = last, l.at
	s.list[len(s.list)-1] = nil
	if s.list = s.list[:len(s.list)-1]; len(s.list) == 0 {
		s.list = nil
	}
}

func (e HoldList) texts() (n int) {
	for _, l := range e.Locks {
		n += eventBytes + l.Hold.texts()
	}
	return n
}
