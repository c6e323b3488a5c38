package history

import (
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Confirm lets porcupine, a checker of linearizability, decide by the rules of a lock alone, and returns an error where
// porcupine does not say what Check says. Porcupine tries orders, for each name in most steps. decided is for how many
// names that was enough.
func Confirm(events []Event, most int) (decided int, err error) {
	for name, of := range byName(events) {
		possible, steps := search(of, most)
		if steps > most {
			continue
		}
		decided++
		switch broken := check(of); {
		case possible && broken != nil:
			return decided, fmt.Errorf("porcupine finds an order for %s: %w", name, broken)
		case !possible && broken == nil:
			return decided, fmt.Errorf("porcupine finds no order for %s", name)
		}
	}
	return decided, nil
}

// state is a name as it should be. Who holds it is known by the fence.
type state struct {
	holder  uint64 // 0 if nobody is known to hold it
	last    uint64 // the greatest fence so far
	unknown bool   // a request without an answer may hold it, or not any more
}

// step says whether an event can happen now, and what is then.
func (s state) step(e Event) (bool, state) {
	mine := s.holder != 0 && s.holder == e.Fence
	switch e.What {
	case Granted:
		return s.holder == 0 && e.Fence > s.last, state{e.Fence, e.Fence, false}
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
		return e.Fence <= s.last, s // grants have rising fences, so it was granted before
	default:
		return false, s
	}
}

// search lets porcupine try the orders of the events of one name that their times allow. It counts the steps, and gives
// up after most.
func search(events []Event, most int) (possible bool, steps int) {
	for _, e := range events {
		granted := func(g Event) bool { return g.What == Granted && g.Fence == e.Fence }
		if e.fenced() && !slices.ContainsFunc(events, granted) {
			return false, 0
		}
	}
	model := porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, event, _ any) (bool, any) {
			steps++
			ok, next := s.(state).step(event.(Event))
			return ok && steps <= most, next
		},
	}
	ops := make([]porcupine.Operation, len(events))
	for i, e := range events {
		ops[i] = porcupine.Operation{Input: e, Call: int64(e.From), Return: int64(e.To)}
	}
	return porcupine.CheckOperations(model, ops), steps
}
