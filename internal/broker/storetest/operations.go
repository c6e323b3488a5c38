package storetest

import (
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// step does one operation to one side.
type step func(ctx context.Context, s *side) outcome

// operation picks the next operation. All that is random in it is decided here, once for both sides.
func (c *comparison) operation() (string, step) {
	switch n := c.rand.IntN(1000); {
	case n < 400:
		return c.acquire()
	case n < 700:
		return c.release()
	case n < 820:
		return c.renew()
	case n < 860:
		return c.force()
	case n < 930:
		return c.look()
	case n < 940:
		return c.list()
	case n < 990:
		name := c.name()
		return "the end of the lease of " + name, hook(func(h Hooks) error { return h.Expire(name) })
	case n < 993:
		name := c.name()
		return "something else at " + name, hook(func(h Hooks) error { return h.Occupy(name) })
	default:
		return "a loss of all data", hook(func(h Hooks) error { return h.Lose() })
	}
}

func hook(do func(Hooks) error) step {
	return func(_ context.Context, s *side) outcome { return outcome{Err: class(do(s.Hooks))} }
}

// Few names and owners meet often.

func (c *comparison) name() string { return []string{"a", "b", "{a}", "{a}b"}[c.rand.IntN(4)] }

func (c *comparison) owner() broker.Owner {
	return []broker.Owner{"s1:x", "s1:y", "s2:x", "s2:#1"}[c.rand.IntN(4)]
}

// ttl is far from others, so that one set for another is seen.
func (c *comparison) ttl() time.Duration {
	return []time.Duration{10 * time.Second, time.Minute, time.Hour}[c.rand.IntN(3)]
}

// fence is the number of one of the last fences of a name, or of none, or of one that never was.
func (c *comparison) fence(name string) int {
	last := len(c.sides[0].known(name)) - 1
	return [...]int{0, 1, last, last, last, max(0, last-1), max(0, last-2), max(0, last-3)}[c.rand.IntN(8)]
}

// count is 1 more often than not.
func (c *comparison) count() uint32 { return [...]uint32{1, 1, 1, 2, 3}[c.rand.IntN(5)] }

func (c *comparison) acquire() (string, step) {
	claim := broker.Claim{Name: c.name(), Kind: broker.Exclusive, Owner: c.owner(), Count: c.count(), TTL: c.ttl()}
	fence := 0
	if claim.Count > 1 {
		fence = c.fence(claim.Name)
	}
	return fmt.Sprintf("acquire %+v with fence %d", claim, fence), func(ctx context.Context, s *side) outcome {
		claim := claim
		claim.Fence = s.fence(claim.Name, fence)
		g, err := s.Store.Acquire(ctx, claim)
		o := outcome{Err: class(err), TTL: max(g.TTL, retryAfter(err))}
		if err == nil {
			o.Fence = s.number(claim.Name, g.Fence)
		}
		return o
	}
}

func (c *comparison) release() (string, step) {
	r := broker.Return{Name: c.name(), Kind: broker.Exclusive, Owner: c.owner()}
	fence := c.fence(r.Name)
	switch c.rand.IntN(4) {
	case 0:
		r.Remaining = c.count()
	case 1:
		r.Next = &broker.Successor{Owner: c.owner(), TTL: c.ttl()}
	}
	return fmt.Sprintf("release %+v to %+v with fence %d", r, r.Next, fence), func(ctx context.Context, s *side) outcome {
		r := r
		r.Fence = s.fence(r.Name, fence)
		res, err := s.Store.Release(ctx, r)
		return outcome{Err: class(err), Fence: s.number(r.Name, res.HandedOver), Rest: res.Listeners}
	}
}

func (c *comparison) renew() (string, step) {
	rs := make([]broker.Renewal, c.rand.IntN(4))
	fences := make([]int, len(rs))
	for i := range rs {
		rs[i] = broker.Renewal{Name: c.name(), Kind: broker.Exclusive, Owner: c.owner(), TTL: c.ttl()}
		if c.rand.IntN(4) == 0 {
			rs[i].TTL = 0
		}
		fences[i] = c.fence(rs[i].Name)
	}
	return fmt.Sprintf("renew %+v with fences %d", rs, fences), func(ctx context.Context, s *side) outcome {
		for i := range rs {
			rs[i].Fence = s.fence(rs[i].Name, fences[i])
		}
		results := make([]string, len(rs))
		s.Store.Renew(ctx, rs, func(i int, err error) { results[i] += "done " + class(err) })
		return outcome{Rest: results}
	}
}

func (c *comparison) force() (string, step) {
	name := c.name()
	return "force release " + name, func(ctx context.Context, s *side) outcome {
		held, err := s.Store.ForceRelease(ctx, name, broker.Exclusive)
		return outcome{Err: class(err), Rest: held}
	}
}

func (c *comparison) look() (string, step) {
	name := c.name()
	return "look at " + name, func(ctx context.Context, s *side) outcome {
		st, err := s.Store.Look(ctx, name)
		number, ttl, rest := s.state(st)
		return outcome{Err: class(err), Fence: number, TTL: ttl, Rest: rest}
	}
}

func (c *comparison) list() (string, step) {
	prefix := []string{"", "a", "{", "b"}[c.rand.IntN(4)]
	size := 1 + c.rand.IntN(5)
	return fmt.Sprintf("list %q", prefix), func(ctx context.Context, s *side) outcome { return s.list(ctx, prefix, size) }
}
