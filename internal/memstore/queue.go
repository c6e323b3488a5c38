package memstore

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// maxWalk is among how many first places ahead looks for a waiter. For one further behind it returns the length of the
// queue.
const maxWalk = 1000

// queue is the fair waiters of a name, in their order. A place whose time has passed is removed only at the head: a
// place further behind may still be prolonged, and keeps its position.
type queue struct {
	order []lock.Owner
	// until is when the place of each waiter ends.
	until map[lock.Owner]time.Time
	// last is when the last place ends, or later.
	last time.Time
	// moved: the waiter at the head has not been told that it is.
	moved bool
}

// over says whether nobody has a place any more.
func (q *queue) over(now time.Time) bool { return len(q.order) == 0 || !now.Before(q.last) }

// head is the next waiter, empty if there is none.
func (q *queue) head() lock.Owner {
	if len(q.order) == 0 {
		return ""
	}
	return q.order[0]
}

// admits says whether it is the turn of an owner.
func (q *queue) admits(o lock.Owner) bool { return len(q.order) == 0 || q.order[0] == o }

// purge removes waiters from the head whose time has passed.
func (q *queue) purge(now time.Time) {
	for len(q.order) > 0 && !now.Before(q.until[q.order[0]]) {
		q.remove(q.order[0])
	}
}

func (q *queue) remove(o lock.Owner) {
	if q.until[o].IsZero() {
		return
	}
	delete(q.until, o)
	if at := slices.Index(q.order, o); at > 0 {
		q.order = slices.Delete(q.order, at, at+1)
	} else {
		q.order, q.moved = q.order[1:], true
	}
}

// rename gives the first of the places of from to another owner, unless that has one already, and takes the others
// away.
func (q *queue) rename(from []lock.Owner, to lock.Owner, until time.Time) {
	at := slices.IndexFunc(q.order, func(o lock.Owner) bool { return slices.Contains(from, o) })
	if at < 0 || !q.until[to].IsZero() {
		return
	}
	first := q.order[at]
	q.order[at], q.until[to] = to, q.until[first]
	delete(q.until, first)
	q.keep(to, until)
	for _, o := range from {
		q.remove(o)
	}
}

// keep prolongs the place of an owner. joined says that it had none and got one at the tail.
func (q *queue) keep(o lock.Owner, until time.Time) (joined bool) {
	if q.until == nil {
		q.until = make(map[lock.Owner]time.Time)
	}
	if joined = q.until[o].IsZero(); joined {
		q.order = append(q.order, o)
	}
	q.until[o], q.last = laterOf(q.until[o], until), laterOf(q.last, until)
	return joined
}

// comeBack gives an owner a place before all others.
func (q *queue) comeBack(o lock.Owner, until time.Time) {
	moved := q.moved
	q.remove(o)
	q.keep(o, until)
	last := len(q.order) - 1
	q.order, q.moved = slices.Insert(q.order[:last:last], 0, o), moved
}

// ahead is how many waiters are before an owner, or would be; see maxWalk.
func (q *queue) ahead(o lock.Owner) int {
	if at := slices.Index(q.order[:min(len(q.order), maxWalk)], o); at >= 0 {
		return at
	}
	return len(q.order)
}
