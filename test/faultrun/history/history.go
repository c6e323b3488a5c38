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
//   - a hold that a session took along to another replica though it was over, or with another fence.
//
// It does not say whether somebody waited for too long. A request whose outcome nobody knows may have taken the name
// for good, so what is left over at the end is to be looked for in Redis.
package history

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// What is what a client did, with what it was told.
type What int

const (
	// Granted is a request for a name, answered with a hold.
	Granted What = iota
	// Refused is a request that was refused because of somebody else's hold.
	Refused
	// MaybeGranted is a request without an answer. It may have been granted at any time until Event.To. If that is
	// Never for many, a broken history is not decided in time.
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

var (
	// ErrBroken is for a history that no correct lock has.
	ErrBroken = errors.New("the locks were broken")
	// ErrUndecided is for a history that could not be decided in time. It proves nothing.
	ErrUndecided = errors.New("the history was not decided in time")
)

// Check returns an error unless the history can be that of correct locks. It decides within a time.
func Check(events []Event, within time.Duration) error {
	for _, e := range events {
		if e.To < e.From || e.fenced() != (e.Fence != 0) {
			return fmt.Errorf("this is no event: %v", e)
		}
	}
	ops := make([]porcupine.Operation, len(events))
	for i, e := range narrow(events) {
		ops[i] = porcupine.Operation{Input: events[i], Call: int64(e.From), Return: int64(e.To)}
	}
	switch porcupine.CheckOperationsTimeout(model(), ops, within) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		_, info := porcupine.CheckOperationsVerbose(model(), ops, within) // takes longer
		return fmt.Errorf("%w: this cannot have been, after all before it: %v", ErrBroken, stuck(events, info))
	default:
		return fmt.Errorf("%w of %v", ErrUndecided, within)
	}
}

// narrow has what ends a hold happen before the grants with greater fences, as it must have. The fewer events can be at
// a time, the fewer orders are to be tried.
func narrow(events []Event) []Event {
	grants := map[string][]Event{} // by name, in the order of fences
	for _, e := range events {
		if e.What == Granted {
			grants[e.Name] = append(grants[e.Name], e)
		}
	}
	for _, of := range grants {
		slices.SortFunc(of, func(a, b Event) int { return cmp.Compare(a.Fence, b.Fence) })
		for i := len(of) - 2; i >= 0; i-- { // each ends before the earliest end of those after it
			of[i].To = min(of[i].To, of[i+1].To)
		}
	}
	narrowed := slices.Clone(events)
	for i, e := range events {
		next, _ := slices.BinarySearchFunc(grants[e.Name], e.Fence+1,
			func(g Event, fence uint64) int { return cmp.Compare(g.Fence, fence) })
		if e.fenced() && next < len(grants[e.Name]) {
			narrowed[i].To = max(e.From, min(e.To, grants[e.Name][next].To))
		}
	}
	return narrowed
}

// stuck is the first event, by its end, that has no place after all that has.
func stuck(events []Event, info porcupine.LinearizationInfo) Event {
	placed := map[Event]bool{}
	for _, name := range info.PartialLinearizationsOperations() {
		for _, order := range name {
			for _, op := range order {
				placed[op.Input.(Event)] = true
			}
		}
	}
	first := Event{To: Never}
	for _, e := range events {
		if !placed[e] && e.To <= first.To {
			first = e
		}
	}
	return first
}

// state is a name. Who holds it is known by the fence.
type state struct {
	holder  uint64 // 0 if nobody is known to hold it
	last    uint64 // the greatest fence so far
	unknown bool   // a request without an answer may hold it, or not any more
}

// model is a lock as it should be, for each name.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: byName,
		Init:      func() any { return state{} },
		Step: func(s, event, _ any) (bool, any) {
			ok, next := s.(state).step(event.(Event))
			return ok, next
		},
	}
}

// step says whether an event can happen now, and what is then.
func (s state) step(e Event) (bool, state) {
	mine := s.holder != 0 && s.holder == e.Fence
	switch e.What {
	case Granted:
		return s.holder == 0 && e.Fence > s.last, state{holder: e.Fence, last: e.Fence}
	case Refused:
		return s.holder != 0 || s.unknown, s
	case MaybeGranted:
		s.unknown = s.unknown || s.holder == 0
		return true, s
	case Released:
		return mine, state{last: s.last}
	case Kept:
		return mine, s
	case NotHeld, MaybeReleased, Lost:
		if mine {
			s.holder = 0
		}
		return true, s
	default:
		return false, s
	}
}

func byName(ops []porcupine.Operation) [][]porcupine.Operation {
	names := map[string][]porcupine.Operation{}
	for _, op := range ops {
		name := op.Input.(Event).Name
		names[name] = append(names[name], op)
	}
	var parts [][]porcupine.Operation
	for _, part := range names {
		parts = append(parts, part)
	}
	return parts
}
