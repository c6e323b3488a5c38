// Package history decides whether what clients saw of exclusive locks with fences can have been: whether there is an
// order in which each thing happened at an instant between its beginning and its end, and no rule of locks was broken.
//
// It promises that a history of a correct lock is never refused, if the times in it are true. These are refused:
//
//   - a name that two clients held at a time: the second was granted before the first could have lost it,
//   - a fence that is not greater than all before it,
//   - a request that was refused though nobody can have held the name: such as after a release that was
//     told and not done,
//   - a release that was told to a client whose hold was over,
//   - a hold that a session took along to another replica though it was over, or with another fence,
//   - the end of a hold that nobody was granted, or before it was granted.
//
// Fences make this easy: they say in which order a name was granted. So each history is decided, in about the time
// that it takes to sort it.
//
// It does not say whether somebody waited for too long. A request whose outcome nobody knows may have taken the name
// for good, so what is left over at the end is to be looked for in Redis.
package history

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// What is what a client did, with what it was told.
type What int

const (
	// Granted is a request for a name, answered with a hold.
	Granted What = iota
	// Refused is a request that was refused because of somebody else's hold.
	Refused
	// MaybeGranted is a request without an answer. It may have been granted at any time until Event.To.
	MaybeGranted
	// Released is a release that was done.
	Released
	// NotHeld is a release that was refused because the hold was over.
	NotHeld
	// MaybeReleased is a release without an answer. The client does without the hold from Event.From on, and it is gone
	// at Event.To.
	MaybeReleased
	// Kept is a hold of a session that went on in another stream: the replica found it there, with its fence, between
	// Event.From, when the client left the old stream, and Event.To, when it was told that it is in the new one.
	Kept
	// Lost is the end of a hold that nobody released: it ran out, was released by force, or its data were lost.
	// Event.From is when the holder might know it at the earliest, or the end of the validity that it was told, and
	// Event.To is when the lease has ended in Redis.
	Lost
)

var words = []string{"granted", "refused", "maybe granted", "released", "not held", "maybe released", "kept", "lost"}

func (w What) String() string { return words[w] }

// Never is the end of what may still happen after the run.
const Never = time.Duration(math.MaxInt64)

// Event is one thing in a history. It happened between From and To, which are counted from the beginning of the run.
// Two events can have happened in either order if their times have a moment in common.
type Event struct {
	Client, Name string
	What         What
	Fence        uint64 // of the hold; 0 if there is none, or nobody knows it
	From, To     time.Duration
}

func (e Event) String() string {
	to := "the end"
	if e.To != Never {
		to = e.To.String()
	}
	return fmt.Sprintf("%s: %s %s (fence %d) between %v and %s", e.Name, e.Client, e.What, e.Fence, e.From, to)
}

// fenced says whether the event is about a hold that the client knows.
func (e Event) fenced() bool { return e.What != Refused && e.What != MaybeGranted }

// ErrBroken is for a history that no correct lock has.
var ErrBroken = errors.New("the locks were broken")

// Check returns an error unless the history can be that of correct locks.
func Check(events []Event) error {
	for _, e := range events {
		if e.To < e.From || e.fenced() != (e.Fence != 0) {
			return fmt.Errorf("this is no event: %v", e)
		}
	}
	names := byName(events)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := check(names[name]); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", ErrBroken, err))
		}
	}
	return errors.Join(errs...)
}

func byName(events []Event) map[string][]Event {
	names := map[string][]Event{}
	for _, e := range events {
		names[e.Name] = append(names[e.Name], e)
	}
	return names
}
