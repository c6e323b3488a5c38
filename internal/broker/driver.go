package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// driveLocked has somebody ask the store for the head of a queue, if that makes sense and nobody does yet.
//
// An attempt that may be made now needs no goroutine. Otherwise the driver sleeps until the next one, and keeps the
// places of fair waiters.
func (b *Broker) driveLocked(q *queue) {
	w := q.headLocked()
	if q.driving || w == nil || w.trying || b.closed { // whoever tries comes here again
		return
	}
	blocked := q.blockedLocked(w)
	switch {
	case blocked && q.places == nil:
	case blocked || q.yield || time.Now().Before(q.tryAt):
		b.goDriveLocked(q)
	default:
		b.startLocked(w)
	}
}

func (b *Broker) goDriveLocked(q *queue) {
	q.driving = true
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	b.goTakingLocked(func() { b.drive(q) })
}

// drive asks the store on behalf of the heads of a queue, one after the other, and keeps the places of its fair
// waiters, until nobody waits or a session of this replica holds the name. While a head has to wait the name is listened
// to, and then it is tried once more, because the release may have come before the listening.
func (b *Broker) drive(q *queue) {
	sleep := sleeper{b: b, q: q}
	defer sleep.end()
	for {
		t := b.nextTurn(q)
		switch {
		case t.over:
			return
		case len(t.enlist) > 0:
			b.enlist(q, t.enlist)
		case t.w != nil:
			b.conclude(t.w, b.insist(b.attempt(t.a)))
		case t.failing:
			sleep.rest(t.pause)
		default:
			sleep.sleep(t.kind, t.next, t.pause)
		}
	}
}

// turn is what a driver does next: it keeps places, or makes an attempt for w, or pauses.
type turn struct {
	over    bool
	enlist  []*waiter
	w       *waiter
	a       attempt // not made yet
	kind    lock.Kind
	next    []lock.Owner // who may be told by other programs that it is its turn
	pause   time.Duration
	failing bool // the last attempt did not reach the store
}

// nextTurn decides what the driver of a queue does next.
func (b *Broker) nextTurn(q *queue) turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.yield {
		q.yield = false
		b.mu.Unlock()
		b.pause(yieldPause)
		b.mu.Lock()
	}
	w, now := q.headLocked(), time.Now()
	if w == nil || b.closed || q.blockedLocked(w) && q.places == nil {
		q.driving = false
		b.dropIdleLocked(q)
		return turn{over: true}
	}
	t := turn{kind: w.claim.Kind, failing: q.fails > 0}
	asleep := q.blockedLocked(w) || w.trying // whoever ends that wakes the driver
	ready := !asleep && !now.Before(q.tryAt)
	if t.enlist = q.places.dueLocked(q, now, !ready); len(t.enlist) > 0 {
		return t
	}
	switch {
	case ready:
		t.w, t.a = w, w.attemptLocked()
		return t
	case asleep:
		t.pause = pollInterval
	default:
		t.pause = q.tryAt.Sub(now)
		t.next = q.nextLocked()
	}
	if q.places != nil {
		t.pause = min(t.pause, q.places.keepAt.Sub(now))
	}
	if q.places.moreLocked() {
		t.pause = 0
	}
	t.pause = max(t.pause, time.Millisecond)
	return t
}

func (b *Broker) conclude(w *waiter, a attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.concludeLocked(w, a)
}

// endAttemptLocked is where each attempt ends. It says whether the waiter is still there, and how often attempts for it failed
// before. What was taken for one that has left is given back.
func (b *Broker) endAttemptLocked(w *waiter, a attempt) (fails int32, there bool) {
	if a.earlierUnknown || errors.Is(a.err, lock.ErrOutcomeUnknown) {
		w.outcomeUnknown, w.lookedFor = true, false
	}
	if a.err == nil || errors.Is(a.err, lock.ErrHeld) {
		b.joinHeldLocked(w, a.err == nil)
	}
	w.trying = false
	fails = w.q.begunLocked(w)
	if w.gone {
		of := w.q.takeOverLocked(w, a)
		b.goTakingLocked(func() { b.undoAttempt(of, w, a) })
	}
	return fails, !w.gone
}

// takeOverLocked keeps others from asking for a name that was granted to a waiter that has left, until it is handed on.
func (q *queue) takeOverLocked(w *waiter, a attempt) (of *Lease) {
	if a.err != nil || w.ownID || a.all != nil || a.claim.Kind.Shared() || q.holder != nil {
		return nil
	}
	q.holder = takenOver
	return takenOver
}

// concludeLocked gives the outcome of an attempt to the waiter it was made for. For the head of a queue it also decides
// when the next one is made.
func (b *Broker) concludeLocked(w *waiter, a attempt) {
	q := w.q
	fails, there := b.endAttemptLocked(w, a)
	if !there {
		return
	}
	held, _ := errors.AsType[*lock.HeldError](a.err)
	switch {
	case !w.lined: // it goes on beside a hold of its holder
	case a.err == nil:
		b.grantedLocked(w, a)
	case held != nil && !w.try:
		b.refusedLocked(w, a, held)
	case w.queued && retriable(a.err) && !w.lateLocked():
		q.againLocked(w, fails+1)
	case held != nil:
		b.refuseLocked(w, NotGranted{
			ID: w.id, Cause: lock.ErrHeld, Name: held.Name, RetryAfter: max(held.RetryAfter, 0), HeldBy: held.HeldBy,
		})
	case w.queued && retriable(a.err):
		b.tooLateLocked(w, a.err)
	default:
		b.refuseLocked(w, Failed{ID: w.id, Err: a.err})
	}
}

// begunLocked forgets when the head of a queue was to be tried, and how often that failed, which it returns: it was
// tried just now.
func (q *queue) begunLocked(w *waiter) (fails int32) {
	if q.headLocked() == w {
		fails = q.fails
		q.fails, q.tryAt = 0, time.Time{}
	}
	return fails
}

// againLocked has the head of a queue tried again after so many failures in a row.
func (q *queue) againLocked(w *waiter, fails int32) {
	if q.headLocked() == w {
		q.fails, q.tryAt = fails, time.Now().Add(backoff(int(fails)))
	}
}

// refusedLocked has a waiter wait on: for a hold to end, or for another name.
func (b *Broker) refusedLocked(w *waiter, a attempt, held *lock.HeldError) {
	q := w.q
	q.refusals++
	elsewhere := w.all != nil && held.Name != "" && held.Name != q.name
	position := w.positionLocked()
	if w.claim.Kind == lock.Fair && !elsewhere {
		position = held.Ahead
		q.placeLocked(w)
	}
	if b.parkLocked(w, position); w.gone {
		return
	}
	if w.lateLocked() {
		b.tooLateLocked(w, nil)
		return
	}
	if w.outcomeUnknown {
		b.findLateGrantLocked(w)
	}
	switch {
	case elsewhere:
		b.moveLocked(w, held.Name)
	case w.giveWayLocked(), q.insteadLocked(w, held.HeldBy):
	case q.headLocked() == w && a.wakeups == q.wakeups:
		q.tryAt = time.Now().Add(pauseFor(held, w.claim.Kind))
	}
}

// giveWayLocked lets waiters that have places in the store go first: for them a request for several names, which has
// none, is refused, and they must not wait behind it.
func (w *waiter) giveWayLocked() bool {
	next := w.behind
	if w.all == nil || next == nil || w.q.places == nil && !next.placed {
		return false
	}
	w.q.toBackLocked(w)
	return true
}

// undoAttempt gives back what an attempt took for a waiter that was answered while it was under way: to the next waiter
// if there is one. The lease of a unary caller that chose its lease id is left alone (own.go). of is takenOver if the queue
// waits for that.
func (b *Broker) undoAttempt(of *Lease, w *waiter, a attempt) {
	if a.err != nil && w.placed {
		b.mu.Lock()
		b.leavePlaceLocked(w)
		b.mu.Unlock()
	}
	switch {
	case w.ownID:
		b.leaveToTwin(w, a.err == nil)
	case a.err == nil:
		for i, c := range a.claims() {
			b.undoGrant(of, w, c, a.grants[i].Fence)
		}
		if w.outcomeUnknown {
			b.undoLater(w)
		}
	case w.outcomeUnknown:
		b.undoLater(w)
	}
}

func retriable(err error) bool {
	return errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrOutcomeUnknown) || errors.Is(err, lock.ErrStoreFull)
}

// pauseFor is how long to wait for a hold to end by itself. A place has to be kept meanwhile.
func pauseFor(e *lock.HeldError, k lock.Kind) time.Duration {
	most := pollInterval
	if k.Placed() {
		most = placeInterval
	}
	if e.RetryAfter == lock.NoTTL {
		return most
	}
	return max(min(e.RetryAfter+time.Millisecond, most), time.Millisecond)
}
