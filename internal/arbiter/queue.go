package arbiter

import (
	"iter"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// pollInterval bounds how long a remaining TTL and the notices of the store are trusted.
	pollInterval = 10 * time.Second
	// yieldPause is how long a replica stands back after a burst of handoffs when others listen.
	yieldPause = 10 * time.Millisecond
	// sideBySide is how many waiters of one name are asked for at once for shared holds. New requests are not counted.
	sideBySide = 64
)

// Queue has the requests of one replica for one name, in the order in which they are to have it. Its zero value is
// empty.
type Queue[R any] struct {
	name     string
	alone    bool  // a session of this replica holds the name for itself alone
	passing  bool  // the name is being passed on, and belongs to nobody
	sharers  int32 // holders of this replica that share it
	behind   int32 // how many of the waiters keep others behind them: all but those that overtake
	fails    int32 // in a row, of attempts for the head that did not reach the store
	wakeups  int32 // how often it was told to hurry
	refusals int32 // how often the store refused one of the waiters, who then waited on
	burst    int32 // handoffs since the last real release
	follow   int32 // how many of those in the queue follow others
	yield    bool  // others listen for the release just made: let them try first
	changed  bool  // something changed since Changed was asked
	waiters  list[R]
	tryAt    time.Time  // when the head is asked for next
	places   *places[R] // of the fair waiters; nil if there are none
}

// Init names a queue.
func (q *Queue[R]) Init(name string) { q.name = name }

// Name is the name.
func (q *Queue[R]) Name() string { return q.name }

// Len is how many wait, or are asked for.
func (q *Queue[R]) Len() int { return int(q.waiters.n) }

// Idle says whether nobody needs the queue.
func (q *Queue[R]) Idle() bool { return !q.alone && !q.passing && q.sharers == 0 && q.waiters.n == 0 }

// Head is the next one; nil if there is none.
func (q *Queue[R]) Head() *Waiter[R] { return q.waiters.front }

// All are the waiters in their order. One of them may leave while it is looked at.
func (q *Queue[R]) All() iter.Seq[*Waiter[R]] {
	return func(yield func(*Waiter[R]) bool) {
		for w := q.waiters.front; w != nil; {
			next := w.behind
			if !yield(w) {
				return
			}
			w = next
		}
	}
}

// Held notes whether a session of this replica holds the name for itself alone, and how many share it.
func (q *Queue[R]) Held(alone bool, sharers int) {
	q.alone, q.sharers = alone, int32(sharers) //nolint:gosec // bounded by the locks of all sessions
}

// Pass notes that the name was given to a request that had left, and is being passed on: until Passed nobody is asked
// for.
func (q *Queue[R]) Pass() { q.passing = true }

// Passed is the end of a Pass.
func (q *Queue[R]) Passed() { q.passing = false }

// Passing says whether the name is being passed on.
func (q *Queue[R]) Passing() bool { return q.passing }

// Blocked says whether it is known here that a request of a kind cannot be granted. A writer that waits for readers of
// this replica is not: the store must know that it waits, or readers elsewhere would go on for ever.
func (q *Queue[R]) Blocked(k lock.Kind) bool { return q.passing || q.alone && k != lock.Semaphore }

// InTheWay says whether somebody here holds the name, or waits for it, before one that arrives now. Requests that
// overtake are not in each other's way.
func (q *Queue[R]) InTheWay(w *Waiter[R]) bool {
	return q.behind > 0 || q.waiters.n > 0 && !w.overtakes() || q.Blocked(w.Claim.Kind)
}

// Arrive puts a request into the queue: behind those who have waited for as long, and behind those that the store is
// being asked for or that were brought to the front. A new head is asked for at once, whatever the one before it has to
// wait for.
func (q *Queue[R]) Arrive(w *Waiter[R]) {
	if !w.overtakes() {
		q.count(w)
	}
	before := q.before(w)
	q.waiters.insert(w, before)
	if before == nil {
		q.Wake()
	}
}

// before is the one behind whom a request is to stand that arrives; nil for nobody. It is looked for from both ends:
// one that moves here may have waited for longer than nearly all others.
func (q *Queue[R]) before(w *Waiter[R]) *Waiter[R] {
	for front, back := q.waiters.front, q.waiters.back; back != nil; front, back = front.behind, back.before {
		if back.precedes(w) {
			return back
		}
		if !front.precedes(w) {
			return front.before
		}
	}
	return nil
}

// precedes says whether one that waits stays before one that arrives.
func (w *Waiter[R]) precedes(o *Waiter[R]) bool {
	return w.Asking() || w.first || !w.Since.After(o.Since)
}

// OvertakesNow says whether one that has just arrived is asked for at once, beside others.
func (q *Queue[R]) OvertakesNow(w *Waiter[R]) bool { return w.overtakes() && !q.yield }

func (q *Queue[R]) count(w *Waiter[R]) {
	w.counted = true
	q.behind++
}

// Park has a request wait.
func (q *Queue[R]) Park(w *Waiter[R]) {
	if w.listed && !w.counted {
		q.count(w)
	}
	w.waits = true
}

// Ahead is how many wait before one that has to wait from now on; -1 for a fair one: what that is told comes from the
// store.
func (q *Queue[R]) Ahead(w *Waiter[R]) int {
	switch {
	case w.Claim.Kind == lock.Fair && !w.Several:
		return -1
	case q.Head() == w:
		return 0
	case !w.counted:
		return int(q.behind)
	default:
		return int(max(q.behind-1, 0))
	}
}

// Tells says whether a request is to be told that it waits at a position. It is told once.
func (w *Waiter[R]) Tells(position int) bool {
	if position < 0 || w.told {
		return false
	}
	w.told = true
	return true
}

// Leave takes a request out for good, and says whether its place in the store is to be given up now.
func (q *Queue[R]) Leave(w *Waiter[R]) (leavePlace bool) {
	q.StepOut(w)
	leavePlace = w.placed && !w.Asking() && !w.enlisting
	w.answered = true
	q.changed = true
	return leavePlace
}

// StepOut takes a request out of the queue; it still waits.
func (q *Queue[R]) StepOut(w *Waiter[R]) {
	if w.listed {
		if q.Head() == w { // the next one may want less
			q.Wake()
		}
		q.unlink(w)
	}
	q.unplace(w)
	q.changed = true
}

// Move takes a request for several names to the queue of the one that is in the way.
func (q *Queue[R]) Move(w *Waiter[R], to *Queue[R], c lock.Claim) {
	q.unlink(w)
	w.Claim = c
	to.Arrive(w)
}

// unlink takes a waiter out of the list.
func (q *Queue[R]) unlink(w *Waiter[R]) {
	q.waiters.remove(w)
	if w.counted {
		w.counted = false
		q.behind--
	}
	if w.follows {
		w.follows = false
		q.follow--
	}
}

// TryNext has a waiter asked for next, unless the store is being asked for it.
func (q *Queue[R]) TryNext(w *Waiter[R]) {
	if w.listed && !w.Asking() {
		q.waiters.toFront(w)
		q.Wake()
	}
}

// Wake has the head asked for now. If an attempt is under way, another one follows.
func (q *Queue[R]) Wake() {
	q.tryAt = time.Time{}
	q.wakeups++
	q.changed = true
}

// NoteChange has the next Changed say so.
func (q *Queue[R]) NoteChange() { q.changed = true }

// Changed says whether there may be something to do earlier than the last Step said.
func (q *Queue[R]) Changed() bool {
	was := q.changed
	q.changed = false
	return was
}
