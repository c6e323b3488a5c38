package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// single is one acquisition or one release of an exclusive lock, with the number of its fence.
type single struct {
	claim  *lock.Claim // or
	back   *lock.Return
	number int
}

func (o single) String() string {
	if o.claim != nil {
		return fmt.Sprintf("acquire %+v", *o.claim)
	}
	return fmt.Sprintf("release %+v to %+v with fence %d", *o.back, o.back.Next, o.number)
}

// batch begins several acquisitions and releases of exclusive locks at the same time, some of the same name, with one fate.
func (c *comparison) batch() (string, step) {
	all := make([]single, 2+c.rand.IntN(5))
	texts := make([]string, len(all))
	for i := range all {
		all[i] = c.single()
		texts[i] = all[i].String()
	}
	fate := Deliver
	if c.rand.IntN(5) == 0 {
		fate = []Fate{LoseReply, LoseRequest, Delay}[c.rand.IntN(3)]
	}
	what := fmt.Sprintf("with fate %d: %s", fate, strings.Join(texts, "; "))
	return what, func(ctx context.Context, s *side) outcome { return c.begin(ctx, s, all, fate) }
}

func (c *comparison) single() single {
	g := c.some(c.name())
	if c.rand.IntN(2) == 0 {
		claim := lock.Claim{
			Name: g.Name, Kind: lock.Exclusive, Owner: c.owner(lock.Exclusive), Count: 1, TTL: c.ttl(),
		}
		return single{claim: &claim}
	}
	back := lock.Return{Name: g.Name, Kind: lock.Exclusive, Owner: g.Owner}
	if c.rand.IntN(4) == 0 {
		back.Next = &lock.Successor{Owner: c.owner(lock.Exclusive), TTL: c.ttl()}
	}
	return single{back: &back, number: g.number}
}

// late executes what was delayed.
func (c *comparison) late() (string, step) {
	return "what is late", func(ctx context.Context, s *side) outcome {
		if s.Hooks.RunLate != nil {
			return outcome{Err: class(s.Hooks.RunLate())}
		}
		late := s.late
		s.late = nil
		for _, do := range late {
			do(ctx)
		}
		return outcome{}
	}
}

// answer is what a single gave.
type answer struct {
	grant lock.Grant
	back  lock.Returned
	err   error
}

// begin does it to one side: with one call of the store for all if it has a hook for that, else one after the other.
func (c *comparison) begin(ctx context.Context, s *side, all []single, fate Fate) outcome {
	fenced := slices.Clone(all)
	for i, o := range fenced {
		if o.back != nil {
			back := *o.back
			back.Fence = s.fence(back.Name, o.number)
			fenced[i].back = &back
		}
	}
	answers := make([]answer, len(all))
	if s.Hooks.Together == nil {
		s.oneByOne(ctx, fenced, fate, answers)
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

func (s *side) oneByOne(ctx context.Context, all []single, fate Fate, answers []answer) {
	for i, o := range all {
		do := func(ctx context.Context) (a answer) {
			if o.claim != nil {
				a.grant, a.err = s.Store.Acquire(ctx, *o.claim)
			} else {
				a.back, a.err = s.Store.Release(ctx, *o.back)
			}
			return a
		}
		switch fate {
		case Deliver:
			answers[i] = do(ctx)
			continue
		case LoseReply:
			do(ctx)
		case Delay:
			s.late = append(s.late, func(ctx context.Context) { do(ctx) })
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
			if o.claim != nil {
				s.Store.StartAcquire(*o.claim, func(g lock.Grant, err error) { answers[i] = answer{grant: g, err: err}; wg.Done() })
			} else {
				s.Store.StartRelease(*o.back, func(r lock.Returned, err error) { answers[i] = answer{back: r, err: err}; wg.Done() })
			}
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
	if a.err != nil || a.back.HandedOver == 0 {
		return fmt.Sprintf("released %q heard by %d", class(a.err), a.back.Listeners)
	}
	if o.back.Next == nil {
		return "handed over to nobody"
	}
	number := s.number(o.back.Name, a.back.HandedOver)
	c.granted(s, lock.Claim{Name: o.back.Name, Kind: lock.Exclusive, Owner: o.back.Next.Owner, Count: 1}, number)
	return fmt.Sprintf("handed over with fence %d", number)
}
