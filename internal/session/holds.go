package session

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
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

// compare orders holds in a list: by name, then by kind and holder.
func (h Hold) compare(o Hold) int {
	if order := strings.Compare(h.Name, o.Name); order != 0 {
		return order
	}
	return cmp.Or(cmp.Compare(h.Kind, o.Kind), strings.Compare(h.Holder, o.Holder))
}

// place is where a hold stands in a list, as a text for clients; holdAt is a hold that would stand there.
func (h Hold) place() string { return fmt.Sprintf("%s\x00%d%s", h.Name, h.Kind, h.Holder) }

func holdAt(place string) Hold {
	name, rest, _ := strings.Cut(place, "\x00")
	if rest == "" { // a place of somebody's own making is somewhere in the order, too
		return Hold{Name: name}
	}
	return Hold{Name: name, Kind: lock.Kind(rest[0] - '0'), Holder: rest[1:]}
}

// holds is one page. All that does not change is looked at without a mutex.
func (s *Session) holds(p Page) (page []HeldLock, next string) {
	first := limits.First[Lease]{Most: p.Size, Compare: func(a, b Lease) int { return a.Hold().compare(b.Hold()) }}
	all, after := s.Leases(), holdAt(p.After)
	s.Spend(time.Duration(len(all)) * limits.LeaseLook)
	for _, l := range all {
		if h := l.Hold(); strings.HasPrefix(h.Name, p.Prefix) && h.compare(after) > 0 {
			first.Add(l)
		}
	}
	found, more := first.All()
	if more {
		next = found[p.Size-1].Hold().place()
	}
	for _, l := range found {
		page = describe(page, l)
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
