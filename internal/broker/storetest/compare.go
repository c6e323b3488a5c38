package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// slack is by how much two remaining times may differ: the stores are asked one after the other.
const slack = 2 * time.Second

// Compare does the same random operations to two empty Stores and returns an error at the first difference. Fences
// are compared by their order and by which are equal, as each store has its own. The same seed gives the same
// operations.
func Compare(ctx context.Context, a, b Rig, seed uint64, steps int) error {
	c := &comparison{
		rand:  rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // it should be repeatable
		sides: [2]*side{newSide(a), newSide(b)},
	}
	for i := range steps {
		name, do := c.operation()
		x, y := do(ctx, c.sides[0]), do(ctx, c.sides[1])
		if d := difference(x, y); d != "" {
			return fmt.Errorf("seed %d, step %d: %s: %s", seed, i, name, d)
		}
		for _, s := range c.sides {
			if s.broken != nil {
				return fmt.Errorf("seed %d, step %d: %s: %T: %w", seed, i, name, s.Store, s.broken)
			}
		}
	}
	return nil
}

// comparison is a sequence of random operations on two sides.
type comparison struct {
	rand  *rand.Rand
	sides [2]*side
}

// side is one of the stores, with the fences it gave out for each name, in the order it first did. The place of a fence
// there is its number; numbers mean the same on both sides.
type side struct {
	Rig
	fences map[string][]broker.Fence
	broken error
}

func newSide(r Rig) *side { return &side{Rig: r, fences: map[string][]broker.Fence{}} }

// known are the fences of a name. Number 0 is no fence, and number 1 is one that is too small to be given out.
func (s *side) known(name string) []broker.Fence {
	if s.fences[name] == nil {
		s.fences[name] = []broker.Fence{0, 1}
	}
	return s.fences[name]
}

// number of a fence that was given out for a name.
func (s *side) number(name string, f broker.Fence) int {
	known := s.known(name)
	if n := slices.Index(known, f); n >= 0 {
		return n
	}
	if last := known[len(known)-1]; f <= last {
		s.broken = fmt.Errorf("fence %d of %q comes after %d", f, name, last)
	}
	s.fences[name] = append(known, f)
	return len(known)
}

// fence with a number.
func (s *side) fence(name string, number int) broker.Fence {
	known := s.known(name)
	return known[min(number, len(known)-1)]
}

// outcome is what an operation gave, in terms that are equal on both sides.
type outcome struct {
	Err   string
	Fence int
	TTL   time.Duration
	Rest  any
}

// difference says in what two outcomes differ.
func difference(x, y outcome) string {
	if d := x.TTL - y.TTL; d < -slack || d > slack {
		return fmt.Sprintf("remaining time %v and %v", x.TTL, y.TTL)
	}
	x.TTL, y.TTL = 0, 0
	if !reflect.DeepEqual(x, y) {
		return fmt.Sprintf("%+v and %+v", x, y)
	}
	return ""
}

// classes are the errors that a caller tells apart.
var classes = []error{
	broker.ErrHeld, broker.ErrNotHeld, broker.ErrStale, broker.ErrUnavailable, broker.ErrOutcomeUnknown,
	broker.ErrKindMismatch, broker.ErrStoreFull, broker.ErrUnsupported, broker.ErrInvalid,
}

// class is what a caller can tell from an error.
func class(err error) string {
	if err == nil {
		return ""
	}
	if held, ok := errors.AsType[*broker.HeldError](err); ok {
		return fmt.Sprintf("held by %q", held.HeldBy)
	}
	if gone, ok := errors.AsType[*broker.GoneError](err); ok {
		return "gone: " + gone.Reason.String()
	}
	for _, c := range classes {
		if errors.Is(err, c) {
			return c.Error()
		}
	}
	return err.Error()
}

// retryAfter is the remaining time in a HeldError.
func retryAfter(err error) time.Duration {
	if held, ok := errors.AsType[*broker.HeldError](err); ok {
		return held.RetryAfter
	}
	return 0
}

// state in terms that are equal on both sides.
func (s *side) state(st broker.State) (number int, ttl time.Duration, rest broker.State) {
	number, ttl = s.number(st.Name, st.Fence), st.TTL
	st.Fence, st.TTL = 0, 0
	return number, ttl, st
}

// list reads all pages, in the order of names.
func (s *side) list(ctx context.Context, prefix string, size int) outcome {
	seen := map[string]outcome{}
	for cursor := ""; ; {
		page, next, err := s.Store.List(ctx, prefix, cursor, size)
		if err != nil {
			return outcome{Err: class(err)}
		}
		for _, st := range page {
			number, _, rest := s.state(st)
			seen[st.Name] = outcome{Fence: number, Rest: rest}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	all := make([]string, 0, len(seen))
	for name, o := range seen {
		all = append(all, fmt.Sprintf("%s %+v", name, o))
	}
	slices.Sort(all)
	return outcome{Rest: all}
}
