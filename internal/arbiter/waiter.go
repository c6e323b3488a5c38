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

	state     State
	counted   bool // in Queue.behind
	told      bool // its position
	placed    bool // it may have a place in the store
	enlisting bool // a call that keeps its place is under way
	links[R]
}

// Forever is a wait without an end.
const Forever time.Duration = -1

// State is how far a request has come.
type State uint8

// The states. The package's doc says what leads from one to another.
const (
	Fresh State = iota
	Trying
	Parked
	Retrying
	Left
	Gone
)

var states = [...]string{"fresh", "trying", "parked", "retrying", "left", "gone"}

func (s State) String() string { return states[s] }

// State is how far it has come.
func (w *Waiter[R]) State() State { return w.state }

// Asking says whether the store is being asked for it.
func (w *Waiter[R]) Asking() bool { return w.state == Trying || w.state == Retrying || w.state == Left }

// Waits says whether it was refused, or somebody was known to be in the way: an unreachable store does not end it any
// more.
func (w *Waiter[R]) Waits() bool { return w.state == Parked || w.state == Retrying }

// Answered says whether it needs no answer any more.
func (w *Waiter[R]) Answered() bool { return w.state >= Left }

// Lined says whether it stands in a queue.
func (w *Waiter[R]) Lined() bool { return w.lined }

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
	w.Begin()
	c := w.Claim
	c.TTL = max(ttl, time.Millisecond)
	if c.Kind.Placed() && !w.Several && !w.Try() {
		c.Place = PlaceTime
		w.placed = true
	}
	return c
}

// Begin notes that the store is being asked for it. Begin, Ended, park and leave are all that change the state.
func (w *Waiter[R]) Begin() {
	switch w.state {
	case Fresh:
		w.state = Trying
	case Parked:
		w.state = Retrying
	default:
	}
}

// Ended notes that the call is over.
func (w *Waiter[R]) Ended() {
	switch w.state {
	case Trying:
		w.state = Fresh
	case Retrying:
		w.state = Parked
	case Left:
		w.state = Gone
	default:
	}
}

func (w *Waiter[R]) park() {
	switch w.state {
	case Fresh:
		w.state = Parked
	case Trying:
		w.state = Retrying
	default:
	}
}

func (w *Waiter[R]) leave() {
	switch w.state {
	case Trying, Retrying:
		w.state = Left
	case Fresh, Parked:
		w.state = Gone
	default:
	}
}

// overtakes says whether it does not keep those behind it from asking.
func (w *Waiter[R]) overtakes() bool { return !w.Waits() && (w.Try() || w.Claim.Kind.Shared()) }

// Granted notes that it has what it asked for: nothing of it is left to be given up.
func (w *Waiter[R]) Granted() { w.placed = false }
