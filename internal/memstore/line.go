package memstore

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxPurge is how many places that ended one operation removes at most.
const maxPurge = 1000

// maxWalk is how far in front a place is looked for; further behind, the length of the line is what is told.
const maxWalk = 1000

// line is the fair waiters of a name, in their order. Places end with time, but only at the head it matters: a place
// further behind that is prolonged in time keeps its position.
type line struct {
	order  []*place
	places map[lock.Owner]*place
	// last is when the last place ends, or later.
	last time.Time
	// moved: somebody else is at the head than those who wait were told.
	moved bool
}

type place struct {
	owner lock.Owner
	until time.Time
}

// over says whether nobody has a place any more.
func (l *line) over(now time.Time) bool { return len(l.order) == 0 || !now.Before(l.last) }

// head is the next one and when its place ends, or empty.
func (l *line) head() place {
	if len(l.order) == 0 {
		return place{}
	}
	return *l.order[0]
}

// admits says whether it is the turn of an owner.
func (l *line) admits(o lock.Owner) bool {
	head := l.head().owner
	return head == "" || head == o
}

// purge removes those at the head whose time has passed.
func (l *line) purge(now time.Time) {
	for range maxPurge {
		head := l.head()
		if head.owner == "" || now.Before(head.until) {
			return
		}
		l.remove(head.owner)
	}
}

func (l *line) remove(o lock.Owner) {
	p := l.places[o]
	if p == nil {
		return
	}
	at := slices.Index(l.order, p)
	l.moved = l.moved || at == 0
	if l.order[at] = nil; at == 0 {
		l.order = l.order[1:]
	} else {
		l.order = slices.Delete(l.order, at, at+1)
	}
	delete(l.places, o)
}

// rename gives the first of the places of some owners to another one that has none, and takes the others away.
func (l *line) rename(from []lock.Owner, to lock.Owner, until time.Time) {
	at := slices.IndexFunc(l.order, func(p *place) bool { return slices.Contains(from, p.owner) })
	if at < 0 || l.places[to] != nil {
		return
	}
	first := l.order[at]
	delete(l.places, first.owner)
	l.places[to], first.owner = first, to
	l.keep(to, until)
	for _, o := range from {
		l.remove(o)
	}
}

// keep prolongs the place of an owner, which gets one at the tail if it has none.
func (l *line) keep(o lock.Owner, until time.Time) (joined bool) {
	p := l.places[o]
	if joined = p == nil; joined {
		if l.places == nil {
			l.places = make(map[lock.Owner]*place)
		}
		p = &place{owner: o}
		l.order, l.places[o] = append(l.order, p), p
	}
	p.until, l.last = laterOf(p.until, until), laterOf(l.last, until)
	return joined
}

// ahead is how many are before an owner, or would be, as far as known.
func (l *line) ahead(o lock.Owner) int {
	front := l.order[:min(len(l.order), maxWalk)]
	if at := slices.IndexFunc(front, func(p *place) bool { return p.owner == o }); at >= 0 {
		return at
	}
	return len(l.order)
}

// page is some of the waiters.
func (l *line) page(from, size int) (page []lock.Owner) {
	from = min(from, len(l.order))
	for _, p := range l.order[from:min(from+max(size, 0), len(l.order))] {
		page = append(page, p.owner)
	}
	return page
}
