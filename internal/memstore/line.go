package memstore

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxWalk is how far in front a place is looked for; further behind, the length of the line is what is told.
const maxWalk = 1000

// line is the fair waiters of a name, in their order. Places end with time, but only at the head it matters: a place
// further behind that is prolonged in time keeps its position.
type line struct {
	order []lock.Owner
	// until is when the place of each of them ends.
	until map[lock.Owner]time.Time
	// last is when the last place ends, or later.
	last time.Time
	// moved: somebody else is at the head than those who wait were told.
	moved bool
}

// over says whether nobody has a place any more.
func (l *line) over(now time.Time) bool { return len(l.order) == 0 || !now.Before(l.last) }

// head is the next one, or empty.
func (l *line) head() lock.Owner {
	if len(l.order) == 0 {
		return ""
	}
	return l.order[0]
}

// admits says whether it is the turn of an owner.
func (l *line) admits(o lock.Owner) bool { return len(l.order) == 0 || l.order[0] == o }

// purge removes those at the head whose time has passed.
func (l *line) purge(now time.Time) {
	for len(l.order) > 0 && !now.Before(l.until[l.order[0]]) {
		l.remove(l.order[0])
	}
}

func (l *line) remove(o lock.Owner) {
	if l.until[o].IsZero() {
		return
	}
	delete(l.until, o)
	if at := slices.Index(l.order, o); at > 0 {
		l.order = slices.Delete(l.order, at, at+1)
	} else {
		l.order, l.moved = l.order[1:], true
	}
}

// rename gives the first of the places of some owners to another one that has none, and takes the others away.
func (l *line) rename(from []lock.Owner, to lock.Owner, until time.Time) {
	at := slices.IndexFunc(l.order, func(o lock.Owner) bool { return slices.Contains(from, o) })
	if at < 0 || !l.until[to].IsZero() {
		return
	}
	first := l.order[at]
	l.order[at], l.until[to] = to, l.until[first]
	delete(l.until, first)
	l.keep(to, until)
	for _, o := range from {
		l.remove(o)
	}
}

// keep prolongs the place of an owner, which gets one at the tail if it has none.
func (l *line) keep(o lock.Owner, until time.Time) (joined bool) {
	if l.until == nil {
		l.until = make(map[lock.Owner]time.Time)
	}
	if joined = l.until[o].IsZero(); joined {
		l.order = append(l.order, o)
	}
	l.until[o], l.last = laterOf(l.until[o], until), laterOf(l.last, until)
	return joined
}

// ahead is how many are before an owner, or would be, as far as known.
func (l *line) ahead(o lock.Owner) int {
	if at := slices.Index(l.order[:min(len(l.order), maxWalk)], o); at >= 0 {
		return at
	}
	return len(l.order)
}
