package memstore

import (
	"container/list"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxPurge is how many places that ended one operation removes at most.
const maxPurge = 1000

// maxWalk is how far in front a place is looked for; further behind, the length of the line is what is told.
const maxWalk = 1000

// line is the fair waiters of a name, in their order. Places end with time, but only at the head it matters: a place
// further behind that is prolonged in time keeps its position. A nil line is an empty one that cannot be joined.
type line struct {
	order  *list.List // of *place
	places map[lock.Owner]*list.Element
	// last is when the last place ends, or later.
	last time.Time
	// moved: somebody else is at the head than those who wait were told.
	moved bool
}

type place struct {
	owner lock.Owner
	until time.Time
}

func newLine() *line { return &line{order: list.New(), places: make(map[lock.Owner]*list.Element)} }

func (l *line) len() int {
	if l == nil {
		return 0
	}
	return l.order.Len()
}

// over says whether nobody has a place any more.
func (l *line) over(now time.Time) bool { return l.len() == 0 || !now.Before(l.last) }

// head is the next one and when its place ends, or empty.
func (l *line) head() (o lock.Owner, until time.Time) {
	if l.len() == 0 {
		return "", time.Time{}
	}
	p := placeOf(l.order.Front())
	return p.owner, p.until
}

// has says whether an owner has a place.
func (l *line) has(o lock.Owner) bool { return l != nil && l.places[o] != nil }

// admits says whether it is the turn of an owner.
func (l *line) admits(o lock.Owner) bool {
	head, _ := l.head()
	return head == "" || head == o
}

// purge removes those at the head whose time has passed.
func (l *line) purge(now time.Time) {
	for range maxPurge {
		head, until := l.head()
		if head == "" || now.Before(until) {
			return
		}
		l.remove(head)
	}
}

func (l *line) remove(o lock.Owner) {
	if l == nil {
		return
	}
	if at := l.places[o]; at != nil {
		l.moved = l.moved || at == l.order.Front()
		l.order.Remove(at)
		delete(l.places, o)
	}
}

// rename gives the first of the places of some owners to another one that has none, and takes the others away.
func (l *line) rename(from []lock.Owner, to lock.Owner, until time.Time) {
	if l == nil || l.places[to] != nil {
		return
	}
	from = slices.DeleteFunc(slices.Clone(from), func(o lock.Owner) bool { return l.places[o] == nil })
	if len(from) == 0 {
		return
	}
	first := from[0]
	for at := l.order.Front(); len(from) > 1 && at != nil; at = at.Next() {
		if o := placeOf(at).owner; slices.Contains(from, o) {
			first = o
			break
		}
	}
	at := l.places[first]
	delete(l.places, first)
	l.places[to] = at
	placeOf(at).owner = to
	l.keep(to, until)
	for _, o := range from {
		l.remove(o)
	}
}

// keep prolongs the place of an owner, which gets one at the tail if it has none.
func (l *line) keep(o lock.Owner, until time.Time) (joined bool) {
	at := l.places[o]
	if joined = at == nil; joined {
		at = l.order.PushBack(&place{owner: o})
		l.places[o] = at
	}
	p := placeOf(at)
	p.until = laterOf(p.until, until)
	l.last = laterOf(l.last, until)
	return joined
}

// ahead is how many are before an owner, or would be, as far as known.
func (l *line) ahead(o lock.Owner) int {
	if !l.has(o) {
		return l.len()
	}
	n := 0
	for at := l.order.Front(); at != nil && n < maxWalk; at = at.Next() {
		if placeOf(at).owner == o {
			return n
		}
		n++
	}
	return l.len()
}

// page is some of the waiters.
func (l *line) page(from, size int) []lock.Owner {
	if l.len() == 0 {
		return nil
	}
	var page []lock.Owner
	for at := l.order.Front(); at != nil && len(page) < size; at = at.Next() {
		if from--; from < 0 {
			page = append(page, placeOf(at).owner)
		}
	}
	return slices.Clip(page)
}

func placeOf(at *list.Element) *place {
	return at.Value.(*place) //nolint:forcetypeassert // nothing else is put there
}
