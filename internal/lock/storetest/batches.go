package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// Fate is what becomes of the calls of a batch.
type Fate uint8

// The fates.
const (
	// Deliver executes the calls and gives their answers.
	Deliver Fate = iota
	// LoseReply executes the calls; the callers get ErrOutcomeUnknown.
	LoseReply
	// LoseRequest does nothing; the callers get ErrOutcomeUnknown.
	LoseRequest
	// Delay gives the callers ErrOutcomeUnknown; RunLate executes the calls.
	Delay
)

// errPlanned is the cause of an error that a fate makes.
var errPlanned = errors.New("a fault of the test")

// single is one acquisition or one release, with the number of its fence.
type single struct {
	claim  *lock.Claim // or
	back   *lock.Return
	number int
}

func (o single) name() string {
	if o.claim != nil {
		return o.claim.Name
	}
	return o.back.Name
}

func (o single) String() string {
	if o.claim != nil {
		return fmt.Sprintf("acquire %+v", *o.claim)
	}
	return fmt.Sprintf("release %+v to %+v with fence %d", *o.back, o.back.Next, o.number)
}

// batch begins several acquisitions and releases at the same time, often of one name, with one fate.
func (c *comparison) batch() (string, step) {
	all := make([]single, 2+c.rand.IntN(5))
	texts := make([]string, len(all))
	for i, one := 0, c.rand.IntN(2) == 0; i < len(all); i++ {
		name := c.name()
		if one && i > 0 {
			name = all[0].name()
		}
		if all[i] = c.single(name); one && i > 0 && c.rand.IntN(6) == 0 {
			all[i] = all[i-1] // the same twice
		}
	}
	for i, o := range all {
		texts[i] = o.String()
	}
	fate := Deliver
	if c.rand.IntN(5) == 0 {
		fate = []Fate{LoseReply, LoseRequest, Delay}[c.rand.IntN(3)]
	}
	what := fmt.Sprintf("with fate %d: %s", fate, strings.Join(texts, "; "))
	return what, func(ctx context.Context, s *side) outcome { return c.begin(ctx, s, all, fate) }
}

// ordinary is a kind of which ordinary requests go together, instead of one of which they do not.
func ordinary(kind lock.Kind) lock.Kind {
	switch kind {
	case lock.Fair:
		return lock.Exclusive
	case lock.Write:
		return lock.Read
	default:
		return kind
	}
}

func (c *comparison) single(name string) single {
	kind := ordinary(c.kind(name))
	if c.rand.IntN(2) == 0 {
		claim := lock.Claim{Name: name, Kind: kind, Owner: c.owner(kind), TTL: c.ttl()}
		if kind == lock.Semaphore {
			claim.Permits, claim.Limit = 1, [...]uint32{0, 3, 3, 3, 4}[c.rand.IntN(5)]
		}
		return single{claim: &claim}
	}
	g := c.some(name)
	if c.rand.IntN(4) > 0 {
		kind = ordinary(g.Kind)
	}
	back := lock.Return{Name: name, Kind: kind, Owner: g.Owner}
	if kind == lock.Semaphore {
		back.Permits = 1
	} else if kind == lock.Exclusive && c.rand.IntN(4) == 0 {
		back.Next = &lock.Successor{Owner: c.owner(lock.Exclusive), TTL: c.ttl()}
	}
	return single{back: &back, number: g.number}
}

func (c *comparison) late() (string, step) {
	return "what is late", func(_ context.Context, s *side) outcome {
		if s.Hooks.RunLate != nil {
			return outcome{Err: class(s.Hooks.RunLate())}
		}
		late := s.late
		s.late = nil
		for _, do := range late {
			do()
		}
		return outcome{}
	}
}

type answer struct {
	grant lock.Grant
	back  lock.Returned
	err   error
}

// start starts the call, and tells its answer to done.
func (o single) start(st lock.Store, done func(answer)) {
	if o.claim != nil {
		st.StartAcquire(*o.claim, func(g lock.Grant, err error) { done(answer{grant: g, err: err}) })
		return
	}
	st.StartRelease(*o.back, func(r lock.Returned, err error) { done(answer{back: r, err: err}) })
}

// begin makes the calls of a batch on one side: together if it has Hooks.Together, else one after the other.
func (c *comparison) begin(ctx context.Context, s *side, all []single, fate Fate) outcome {
	fenced := make([]single, len(all))
	for i, o := range all {
		if fenced[i] = c.fenced(s, o); o.claim != nil && o.claim.Kind == lock.Read && fate != Deliver {
			s.unheard[o.claim.Name] = true
		}
	}
	answers := make([]answer, len(all))
	if s.Hooks.Together == nil {
		s.oneByOne(fenced, fate, answers)
	} else if err := s.atOnce(fenced, fate, answers); err != nil {
		return outcome{Err: err.Error()}
	}
	var sum outcome
	results := make([]string, len(all))
	for i, o := range all {
		results[i] = c.result(ctx, s, o, answers[i], &sum)
	}
	sum.Rest = results
	return sum
}

// fenced is o, with its fence if it is a release.
func (c *comparison) fenced(s *side, o single) single {
	if o.back != nil && !c.anyFence {
		back := *o.back
		back.Fence = s.fence(back.Name, o.number)
		o.back = &back
	}
	return o
}

// one is begin for a single call.
func (c *comparison) one(ctx context.Context, s *side, o single) (sum outcome) {
	answers := make([]answer, 1)
	s.oneByOne([]single{c.fenced(s, o)}, Deliver, answers)
	sum.Rest = c.result(ctx, s, o, answers[0], &sum)
	return sum
}

func (s *side) oneByOne(all []single, fate Fate, answers []answer) {
	for i, o := range all {
		do := func() answer {
			a := make(chan answer, 1)
			o.start(s.Store, func(done answer) { a <- done })
			return <-a
		}
		switch fate {
		case Deliver:
			answers[i] = do()
			continue
		case LoseReply:
			do()
		case Delay:
			s.late = append(s.late, func() { do() })
		default: // nothing is done
		}
		answers[i] = answer{err: fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, errPlanned)}
	}
}

func (s *side) atOnce(all []single, fate Fate, answers []answer) error {
	var wg sync.WaitGroup
	wg.Add(len(all))
	err := s.Hooks.Together(fate, func() {
		for i, o := range all {
			o.start(s.Store, func(a answer) { answers[i] = a; wg.Done() })
		}
	})
	if err != nil {
		return err
	}
	wg.Wait()
	return nil
}

// result says what a single gave in terms that are equal on both sides. Remaining times are added to a sum.
func (c *comparison) result(ctx context.Context, s *side, o single, a answer, sum *outcome) string {
	sum.Left = append(sum.Left, a.grant.TTL, retryAfter(a.err))
	if o.claim != nil {
		if a.err != nil {
			return class(s.refusal(ctx, a.err, *o.claim))
		}
		number := s.number(o.claim.Name, a.grant.Fence)
		c.granted(s, *o.claim, number)
		return fmt.Sprintf("granted with fence %d", number)
	}
	number := s.number(o.back.Name, a.back.HandedOver)
	if number > 0 && o.back.Next != nil {
		c.granted(s, lock.Claim{Name: o.back.Name, Kind: o.back.Kind, Owner: o.back.Next.Owner}, number)
	}
	a.back.HandedOver = 0
	return fmt.Sprintf("released %q with fence %d: %+v", class(a.err), number, a.back)
}
