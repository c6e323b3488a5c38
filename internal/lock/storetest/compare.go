package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// slack is by how much two remaining times may differ, besides twice the longest step: both the grant and the look come
// later on one side than on the other.
const slack = 2 * time.Second

// Compare does the same random operations to two empty Stores and returns an error at the first difference. Fences are
// compared by their order and by which are equal, because each store has its own; of several readers any may be named.
// The same seed gives the same operations.
func Compare(ctx context.Context, a, b Rig, seed uint64, steps int) error {
	c := &comparison{
		rand:  rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // it should be repeatable
		sides: [2]*side{newSide(a), newSide(b)}, anyFence: a.AnyFence || b.AnyFence,
		usual: map[string]lock.Kind{},
		last:  map[string][]grant{},
	}
	var longest time.Duration
	for i := range steps {
		name, do := c.operation()
		begun := time.Now()
		x, y := do(ctx, c.sides[0]), do(ctx, c.sides[1])
		longest = max(longest, time.Since(begun))
		if d := difference(x, y, slack+2*longest); d != "" {
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
	rand     *rand.Rand
	sides    [2]*side
	anyFence bool // releases have no fence, because one side does not compare it
	// usual is, by name, the kind with which the name is mostly used at present.
	usual map[string]lock.Kind
	// last are the last grants of each name, so that operations often meet a hold.
	last map[string][]grant
}

// grant is a claim that both sides granted, with the number of its fence.
type grant struct {
	lock.Claim
	number int
}

func (c *comparison) granted(s *side, claim lock.Claim, number int) {
	if claim.Fence = 0; s == c.sides[0] {
		last := append(c.last[claim.Name], grant{claim, number})
		c.last[claim.Name] = last[max(0, len(last)-3):]
	}
}

// some is one of the last grants of a name, or something else that could have been granted.
func (c *comparison) some(name string) grant {
	if last := c.last[name]; len(last) > 0 && c.rand.IntN(3) > 0 {
		return last[c.rand.IntN(len(last))]
	}
	g := grant{c.claim(name), c.fence(name)}
	g.Permits = c.permits(g.Kind)
	return g
}

// side is one of the stores, with the fences that it gave out for each name, in the order in which they first came. The
// index of a fence is its number. The same number means the corresponding fence on both sides.
type side struct {
	Rig
	fences map[string][]lock.Fence
	heard  map[heardFence]time.Time
	// unheard are names that may have a reader whose grant was lost: when it asks again, it gets a fence that is older
	// than some that are known.
	unheard map[string]bool
	late    []func() // what was delayed
	broken  error
}

func newSide(r Rig) *side {
	return &side{
		Rig: r, fences: map[string][]lock.Fence{}, heard: map[heardFence]time.Time{},
		unheard: map[string]bool{},
	}
}

type heardFence struct {
	name  string
	fence lock.Fence
}

// seen is when a fence was heard of, zero for one that never was.
func (s *side) seen(name string, f lock.Fence) time.Time { return s.heard[heardFence{name, f}] }

// known are the fences of a name. Number 0 is no fence, and number 1 is one that is too small to be given out.
func (s *side) known(name string) []lock.Fence {
	if s.fences[name] == nil {
		s.fences[name] = []lock.Fence{0, 1}
	}
	return s.fences[name]
}

func (s *side) number(name string, f lock.Fence) int {
	known := s.known(name)
	if n := slices.Index(known, f); n >= 0 {
		return n
	}
	if last := slices.Max(known); f <= last && !s.unheard[name] {
		s.broken = fmt.Errorf("fence %d of %q comes after %d", f, name, last)
	}
	s.fences[name] = append(known, f)
	s.heard[heardFence{name, f}] = time.Now()
	return len(known)
}

func (s *side) fence(name string, number int) lock.Fence {
	known := s.known(name)
	return known[min(number, len(known)-1)]
}

// outcome is what an operation gave, in terms that are equal on both sides, but for the remaining times, which are
// nearly equal.
type outcome struct {
	Err   string
	Fence int
	Left  []time.Duration
	Rest  any
}

// difference says in what two outcomes differ. Remaining times may differ by slack.
func difference(x, y outcome, slack time.Duration) string {
	if len(x.Left) != len(y.Left) {
		return fmt.Sprintf("%+v and %+v", x, y)
	}
	for i := range x.Left {
		if d := x.Left[i] - y.Left[i]; d < -slack || d > slack || (x.Left[i] == lock.NoTTL) != (y.Left[i] == lock.NoTTL) {
			return fmt.Sprintf("remaining times %v and %v", x.Left, y.Left)
		}
	}
	x.Left, y.Left = nil, nil
	if !reflect.DeepEqual(x, y) {
		return fmt.Sprintf("%+v and %+v", x, y)
	}
	return ""
}

// classes are the errors that a caller tells apart.
var classes = []error{
	lock.ErrHeld, lock.ErrNotHeld, lock.ErrStale, lock.ErrUnavailable, lock.ErrOutcomeUnknown,
	lock.ErrKindMismatch, lock.ErrStoreFull, lock.ErrUnsupported, lock.ErrInvalid, lock.ErrLimitMismatch,
}

// class is what a caller can tell from an error.
func class(err error) string {
	if err == nil {
		return ""
	}
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		return fmt.Sprintf("%q held by %q behind %d", held.Name, held.HeldBy, held.Ahead)
	}
	if limit, ok := errors.AsType[*lock.LimitError](err); ok {
		return limit.Error()
	}
	if invalid, ok := errors.AsType[*lock.InvalidError](err); ok {
		return invalid.Field + " " + invalid.Reason
	}
	if gone, ok := errors.AsType[*lock.GoneError](err); ok {
		return "gone: " + gone.Reason.String()
	}
	for _, c := range classes {
		if errors.Is(err, c) {
			return c.Error()
		}
	}
	return err.Error()
}

func retryAfter(err error) time.Duration {
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		return held.RetryAfter
	}
	return 0
}

// anyReader stands for a holder that may be any of several readers.
const anyReader lock.Owner = "a reader"

// refusal is an error in terms that are equal on both sides. A refused writer is told one of the readers. A claim
// neither to read nor to write may be told a reader whose time has passed, or nobody, even if there is a writer.
func (s *side) refusal(ctx context.Context, err error, claims ...lock.Claim) error {
	held, ok := errors.AsType[*lock.HeldError](err)
	if !ok {
		return err
	}
	other := *held
	other.HeldBy = lock.Owner(strings.TrimSuffix(string(held.HeldBy), writeSuffix))
	at := max(0, slices.IndexFunc(claims, func(c lock.Claim) bool { return c.Name == held.Name }))
	if claims[at].Kind == lock.Read {
		return &other
	}
	neither := claims[at].Kind != lock.Write
	switch st, err := s.Store.Look(ctx, claims[at].Name); {
	case err == nil && st.Kind == lock.Read && (st.Holders > 1 || neither), err == nil && !st.Held && neither:
		other.HeldBy = anyReader
	case err == nil && st.Kind == lock.Write && neither && other.HeldBy == "": // as somebody has read beside
		other.HeldBy = st.Owner
	case err == nil && st.Kind != lock.Write && neither && isReader(other.HeldBy): // has ended since, in the same batch
		other.HeldBy = anyReader
	}
	return &other
}

// isReader says whether o may be a reader, or is empty, which a store may tell in place of a reader.
func isReader(o lock.Owner) bool { return o == "" || strings.HasSuffix(string(o), rwSuffix) }

// writeSuffix is what a store may add to the owner of a write hold if it is asked about another kind.
const writeSuffix = ":write"

// state in terms that are equal on both sides.
func (s *side) state(st lock.State) (number int, left time.Duration, rest lock.State) {
	number, left = s.number(st.Name, st.Fence), st.TTL
	st.Fence, st.TTL, st.Members = 0, 0, 0
	if st.Kind == lock.Read && st.Holders > 1 {
		st.Owner, st.Count = anyReader, 0
	}
	if st.Kind == lock.Read && !st.Held {
		st.Kind = 0 // all readers have ended
	}
	return number, left, st
}

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
