package arbiter

import "time"

// A try that finds others waiting is refused: they come first. What keeps them waiting may be over already, though, and
// the store about to say so. Where they share the name with the try it may have room beside them, so it stands in
// line behind them, and is refused only by what the store says of them after it came. A try for several names does not:
// whoever answers it needs all of them.

// Follow has a try that has somebody in its way stand behind those who wait, and says whether it does. It arrives after
// that. Otherwise it is to be refused: the store has said last what keeps the others waiting, or the try could not
// share the name with them.
func (q *Queue[R]) Follow(w *Waiter[R], now time.Time) bool {
	h := q.Head()
	switch {
	case h == nil || !w.Try() || w.Several:
		return false
	case !h.Claim.Kind.Shared() || h.Claim.Kind != w.Claim.Kind || q.Blocked(h.Claim.Kind):
		return false
	case q.fails > 0 || !h.Asking() && !q.yield && now.Before(q.tryAt):
		return false
	}
	w.follows, w.came = true, q.wakeups
	q.follow++
	return true
}

// Follows says whether a request is a try that stands behind others, of whom the store answers. Then it can be refused
// because of them, without being asked for.
func (q *Queue[R]) Follows(w *Waiter[R]) bool { return w.follows && q.fails == 0 }

// Overruled are the tries that are to be refused because w, which stands before them, was refused and waits on. begun
// is when the attempt for w began. A try that came after news which that attempt did not know is left out. They are
// still in the queue.
func (q *Queue[R]) Overruled(w *Waiter[R], begun Begun) (tries []*Waiter[R]) {
	if q.Head() != w || q.follow == 0 {
		return nil
	}
	return q.followers(func(t *Waiter[R]) bool { return begun.wakeups-t.came >= 0 })
}

// Shut are the tries that are to be refused because the name is held here for one alone. They are still in the queue.
func (q *Queue[R]) Shut() (tries []*Waiter[R]) {
	if !q.alone || q.follow == 0 {
		return nil
	}
	return q.followers(func(*Waiter[R]) bool { return true })
}

// followers are some of the tries that follow others. They came last, so most of them stand at the end.
func (q *Queue[R]) followers(some func(*Waiter[R]) bool) (tries []*Waiter[R]) {
	left := q.follow
	for t := q.waiters.back; t != nil && left > 0; t = t.before {
		if !t.follows {
			continue
		}
		left--
		if !t.Asking() && some(t) {
			tries = append(tries, t)
		}
	}
	return tries
}
