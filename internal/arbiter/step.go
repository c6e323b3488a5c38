package arbiter

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Step is what is to be done for a queue.
type Step[R any] struct {
	Do    Do
	Ask   *Waiter[R]   // whom to ask for
	Keep  []*Waiter[R] // whose places to keep
	Pause time.Duration
	Kind  lock.Kind    // what to listen to meanwhile
	Next  []lock.Owner // who may be told by other programs that it is its turn
}

// Do says what kind of a Step it is.
type Do uint8

// What is to be done.
const (
	// Stop: nothing, until something happens.
	Stop Do = iota
	// Ask: ask the store for Step.Ask.
	Ask
	// Keep: keep the places of Step.Keep.
	Keep
	// Yield: let others try, for Pause.
	Yield
	// Rest: nothing for Pause, because the store cannot be reached.
	Rest
	// Sleep: nothing for Pause, or until a notice of the store comes.
	Sleep
)

// Start says what is to be done for a queue that nobody drives: Stop, Ask, or something else: then somebody has to
// drive it, which is to call Next again and again. Whoever asked for the head calls Start after that.
func (q *Queue[R]) Start(now time.Time) Step[R] {
	w := q.Head()
	if w == nil || w.Asking() {
		return Step[R]{Do: Stop}
	}
	blocked := q.Blocked(w.Claim.Kind)
	switch {
	case blocked && q.places == nil:
		return Step[R]{Do: Stop}
	case blocked || q.yield || now.Before(q.tryAt):
		return Step[R]{Do: Sleep}
	}
	return Step[R]{Do: Ask, Ask: w}
}

// Next says what is to be done now. Stop ends the driving.
func (q *Queue[R]) Next(now time.Time) Step[R] {
	if q.yield {
		q.yield = false
		return Step[R]{Do: Yield, Pause: yieldPause}
	}
	w := q.Head()
	if w == nil || q.Blocked(w.Claim.Kind) && q.places == nil {
		return Step[R]{Do: Stop}
	}
	asleep := q.Blocked(w.Claim.Kind) || w.Asking() // whoever ends that notes a change
	ready := !asleep && !now.Before(q.tryAt)
	if due := q.places.due(now, !ready); len(due) > 0 {
		return Step[R]{Do: Keep, Keep: due}
	}
	if ready {
		return Step[R]{Do: Ask, Ask: w}
	}
	return q.sleep(w, asleep, now)
}

// sleep is a Step in which nothing is done.
func (q *Queue[R]) sleep(w *Waiter[R], asleep bool, now time.Time) Step[R] {
	t := Step[R]{Do: Sleep, Kind: q.listensTo(w), Pause: pollInterval}
	if q.fails > 0 {
		t.Do = Rest
	}
	if !asleep {
		t.Pause = q.tryAt.Sub(now)
		t.Next = q.nextPlaced()
	}
	if q.places != nil {
		t.Pause = min(t.Pause, q.places.keepAt.Sub(now))
	}
	if q.places.more() {
		t.Pause = 0
	}
	t.Pause = max(t.Pause, time.Millisecond)
	return t
}

// listensTo is the kind of notices that matter while the head waits. News of a fair lock are for those who have
// places. A request for several names has none: it may go on when nobody has one, which those are told who wait for an
// exclusive lock.
func (q *Queue[R]) listensTo(w *Waiter[R]) lock.Kind {
	if w.Several && w.Claim.Kind == lock.Fair && q.places == nil {
		return lock.Exclusive
	}
	return w.Claim.Kind
}

// BlindPause is how often the head is asked for while the store does not confirm that it is listened to.
const BlindPause = pollInterval / 10

// TryWithin bounds the time until the head is asked for.
func (q *Queue[R]) TryWithin(d time.Duration, now time.Time) {
	if at := now.Add(d); at.Before(q.tryAt) {
		q.tryAt = at
	}
}

// Heard has the head asked for if a notice concerns one of the waiters.
func (q *Queue[R]) Heard(n lock.Notice, now time.Time) {
	if !q.meant(n.For) {
		return
	}
	within := n.After + time.Millisecond
	switch n.What {
	case lock.NoticeTurn:
	case lock.NoticeDeaf:
		within = BlindPause
	default:
		q.Wake()
		return
	}
	switch {
	case !q.tryAt.After(now): // an attempt may be under way, and its refusal older than this notice: another one follows
		q.Wake()
	case now.Add(within).Before(q.tryAt):
		q.tryAt = now.Add(within)
		q.changed = true
	}
}

// HeardTurn is Heard for what other programs told one fair waiter. If that waiter is listened for only from now on and
// is the head, its turn may have been told before, so it is asked for.
func (q *Queue[R]) HeardTurn(o lock.Owner, n lock.Notice) {
	switch n.What {
	case lock.NoticeListening:
		if w := q.Head(); w != nil && w.Claim.Owner == o {
			q.Wake()
		}
	case lock.NoticeReleased:
		if q.meant(n.For) {
			q.Wake()
		}
	default: // that of the name tells of interruptions
	}
}
