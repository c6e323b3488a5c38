package arbiter

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Begun is what a queue knew when an attempt began.
type Begun struct{ wakeups, refusals int32 }

// Begun is what the queue knows now.
func (q *Queue[R]) Begun() Begun { return Begun{q.wakeups, q.refusals} }

// Answer is what the outcome of an attempt means for its request.
type Answer struct {
	Verdict Verdict
	// Position is how many are before it if it waits, -1 if that is not known.
	Position int
	// Held is who is in the way.
	Held *lock.HeldError
}

// Verdict is what becomes of a request.
type Verdict uint8

// The verdicts.
const (
	// Nothing: the request stands in no queue, so others decide.
	Nothing Verdict = iota
	// Grant: it has what it asked for.
	Grant
	// Wait: it waits, or waits on, and Position is to be told.
	Wait
	// Elsewhere: it waits for another one of its names, Held.Name.
	Elsewhere
	// Again: it waits, and is asked for once more a little later.
	Again
	// RefuseLate: its wait is over. Position is set as for Wait if it had not waited before.
	RefuseLate
	// RefuseHeld: it does not wait for others.
	RefuseHeld
	// RefuseFailed: the store did not do it.
	RefuseFailed
)

// StoreAnswered notes that the store answered a call for a request, and says what that means. err is as
// lock.Holds has it. A request that was answered before is not judged.
func (q *Queue[R]) StoreAnswered(w *Waiter[R], begun Begun, err error, now time.Time) Answer {
	w.Ended()
	isHead, fails := q.Head() == w, q.fails
	if isHead {
		q.fails, q.tryAt = 0, time.Time{}
	}
	held, _ := errors.AsType[*lock.HeldError](err)
	again := w.Waits() && lock.Retriable(err)
	switch {
	case w.Answered() || !w.listed:
		return Answer{Verdict: Nothing}
	case err == nil:
		return Answer{Verdict: Grant}
	case held != nil && !w.Try():
		return q.refused(w, begun, held, now)
	case again && !w.Late(now):
		if isHead {
			q.fails, q.tryAt = fails+1, now.Add(lock.Backoff(int(fails+1)))
		}
		return Answer{Verdict: Again}
	case held != nil:
		return Answer{Verdict: RefuseHeld, Held: held}
	case again:
		return Answer{Verdict: RefuseLate, Position: -1}
	}
	return Answer{Verdict: RefuseFailed}
}

// refused has a request wait: for a hold to end, or for another name.
func (q *Queue[R]) refused(w *Waiter[R], begun Begun, held *lock.HeldError, now time.Time) Answer {
	q.refusals++
	a := Answer{Verdict: Wait, Position: q.Ahead(w), Held: held}
	elsewhere := w.Several && held.Name != "" && held.Name != q.name
	if w.Claim.Kind == lock.Fair && !elsewhere {
		a.Position = held.Ahead
		q.Place(w, now)
	}
	q.Park(w)
	switch {
	case w.Late(now):
		a.Verdict = RefuseLate
	case elsewhere:
		a.Verdict = Elsewhere
	case q.giveWay(w), q.askOther(w, held.HeldBy):
	case q.Head() == w && begun.wakeups == q.wakeups:
		q.tryAt = now.Add(pauseFor(held, w.Claim.Kind))
	}
	return a
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

// giveWay lets waiters that have places in the store go first: for them a request for several names, which has none, is
// refused, and they must not wait behind it.
func (q *Queue[R]) giveWay(w *Waiter[R]) bool {
	next := w.behind
	if !w.Several || next == nil || q.places == nil && !next.placed {
		return false
	}
	q.waiters.toBack(w)
	return true
}

// AlsoAsk are up to n waiters to be asked for at once after one was granted: where one shared hold fits in, more may.
// No request for permits is among them that wants fewer than one before it, because it could be granted what that one
// is refused. There are none if a request was refused since that attempt began.
func (q *Queue[R]) AlsoAsk(since Begun, n int) (next []*Waiter[R]) {
	if since.refusals != q.refusals {
		return nil
	}
	most, w := uint32(0), q.Head()
	for range sideBySide {
		if w == nil || len(next) == n || !w.Claim.Kind.Shared() || w.Claim.Permits < most || q.Blocked(w.Claim.Kind) {
			break
		}
		if !w.Asking() {
			next = append(next, w)
		}
		most, w = w.Claim.Permits, w.behind
	}
	return next
}

// Successor is the waiter to whom a release of this kind may hand the name: the head, unless it wants another kind or
// several names, is being asked for, or the burst is used up. Among fair waiters the store decides whose turn it is.
func (q *Queue[R]) Successor(k lock.Kind, burst int) *Waiter[R] {
	w := q.Head()
	switch {
	case w == nil || w.Asking() || k.Shared() || w.Claim.Kind != k || w.Several || q.sharers > 0:
		return nil
	case k != lock.Fair && int(q.burst) >= burst:
		return nil
	}
	return w
}

// HandOver notes that the caller asks the store to give the name to a Successor. Call Ended, and HandedOver or
// Freed, after it.
func (q *Queue[R]) HandOver(w *Waiter[R]) { w.asking = true }

// HandedOver notes that it has the name.
func (q *Queue[R]) HandedOver() { q.burst++ }

// Freed is what the store said of a name that was freed.
type Freed struct {
	Turn      lock.Owner // whose turn it is, if that is known
	Listeners int        // how many heard of it
	Burst     int        // how many handoffs in a row are allowed
	Begun     Begun      // when the call did
}

// Freed has the head asked for, unless it is the turn of somebody elsewhere and nothing was heard since. now counts
// only if f.Turn is set.
func (q *Queue[R]) Freed(f Freed, now time.Time) {
	q.yield = int(q.burst) >= f.Burst && f.Listeners > 0
	q.burst = 0
	if f.Turn != "" && q.places != nil && !q.meant(f.Turn) && f.Begun.wakeups == q.wakeups {
		q.tryAt = now.Add(placeInterval)
		return
	}
	q.Wake()
}
