package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// walkPause is between two parts of a walk along many leases.
const walkPause = time.Millisecond

// ListHolds asks what the session holds. The answer is HoldList or Failed. What is held all the while comes exactly
// once over the pages; what is taken or ends meanwhile may come or not.
func (s *Session) ListHolds(id uint64, req request.Holds) {
	s.ask(id, nil, func() {
		list, err := session.HoldList{ID: id}, s.Pages()
		if err == nil {
			list.Locks, list.Next = s.holds(req)
		}
		s.Answer(id, list, err)
	})
}

// listed is a lease with its place in a list: by name, then by kind and holder.
type listed struct {
	place string
	lease *Lease
}

// holds is one page. All that does not change is looked at without a mutex.
func (s *Session) holds(req request.Holds) (page []session.HeldLock, next string) {
	var found []listed
	for _, l := range s.Walk(func() { s.b.pause(walkPause) }) {
		if !strings.HasPrefix(l.name, req.Prefix) {
			continue
		}
		if p := fmt.Sprintf("%s\x00%d%s", l.name, l.kind, l.holder); p > req.After {
			found = append(found, listed{p, l})
		}
	}
	slices.SortFunc(found, func(a, c listed) int { return strings.Compare(a.place, c.place) })
	found = slices.Compact(found)
	if len(found) > req.Size {
		found = found[:req.Size]
		next = found[req.Size-1].place
	}
	for _, p := range found {
		page = p.lease.describe(page)
	}
	return page, next
}

// describe adds a lease to a page, if it is still held.
func (l *Lease) describe(page []session.HeldLock) []session.HeldLock {
	l.lock()
	defer l.unlock()
	if l.over {
		return page
	}
	return append(page, session.HeldLock{
		Hold: l.hold(), Validity: l.sess.Validity(l.until), Count: l.count, Auto: l.auto, Permits: l.permits,
	})
}
