package arbiter

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Waiter is one request for a name. R is what the caller has of it.
type Waiter[R any] struct {
	For *R
	// Claim is what each attempt asks for, but for its TTL: this one is the longest.
	Claim lock.Claim
	// Several: Claim is one of several names, of which the request takes all or none.
	Several bool
	// Since is when it came, Wait how long it waits: 0 not at all, Forever without an end.
	Since time.Time
	Wait  time.Duration

	asking    bool  // the store is being asked for it
	waits     bool  // it was refused, or somebody was known to be in the way
	answered  bool  // it needs no answer any more
	counted   bool  // in Queue.behind
	told      bool  // its position
	placed    bool  // it may have a place in the store
	enlisting bool  // a call that keeps its place is under way
	follows   bool  // it is a try that those before it may leave room for
	came      int32 // how often the queue had been told to hurry when it began to follow
	links[R]
}

// Forever is a wait without an end.
const Forever time.Duration = -1

// Asking says whether the store is being asked for it.
func (w *Waiter[R]) Asking() bool { return w.asking }

// Waits says whether it was refused, or somebody was known to be in the way: an unreachable store does not end it any
// more.
func (w *Waiter[R]) Waits() bool { return w.waits && !w.answered }

// Answered says whether it needs no answer any more.
func (w *Waiter[R]) Answered() bool { return w.answered }

// Lined says whether it stands in a queue.
func (w *Waiter[R]) Lined() bool { return w.listed }

// Placed says whether it may have a place in the store.
func (w *Waiter[R]) Placed() bool { return w.placed }

// Try says whether it does not wait for others.
func (w *Waiter[R]) Try() bool { return w.Wait == 0 }

// Late says whether its wait is over.
func (w *Waiter[R]) Late(now time.Time) bool {
	return w.Wait != Forever && !now.Before(w.Since.Add(w.Wait))
}

// Ask begins a call of the store for it, and is what to ask for. Call Ended after it.
func (w *Waiter[R]) Ask(ttl time.Duration) lock.Claim {
	w.asking = true
	c := w.Claim
	c.TTL = max(ttl, time.Millisecond)
	if c.Kind.Placed() && !w.Several && !w.Try() {
		c.Place = PlaceTime
		w.placed = true
	}
	return c
}

// Ended notes that the call is over.
func (w *Waiter[R]) Ended() { w.asking = false }

// overtakes says whether it does not keep those behind it from asking.
func (w *Waiter[R]) overtakes() bool { return !w.Waits() && (w.Try() || w.Claim.Kind.Shared()) }

// Granted notes that it has what it asked for: nothing of it is left to be given up.
func (w *Waiter[R]) Granted() { w.placed = false }
