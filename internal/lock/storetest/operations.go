package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

type step func(ctx context.Context, s *side) outcome

// operation picks the next operation. All random choices are made here, once for both sides.
func (c *comparison) operation() (string, step) {
	switch n := c.rand.IntN(1000); {
	case n < 320:
		return c.acquire()
	case n < 340:
		return c.raise()
	case n < 375:
		return c.batch()
	case n < 380:
		return c.late()
	case n < 410:
		return c.acquireAll()
	case n < 640:
		return c.release()
	case n < 710:
		return c.renew()
	case n < 730:
		return c.shorten()
	case n < 760:
		return c.force()
	case n < 850:
		return c.look()
	case n < 860:
		return c.list()
	case n < 866 && c.has(lock.Semaphore):
		return c.setLimit()
	case n < 868 && c.has(lock.Semaphore):
		return c.removeLimit()
	case n < 870 && c.has(lock.Semaphore):
		return c.adoptLimit()
	case n < 890 && c.has(lock.Fair):
		return c.enlist()
	case n < 920:
		return c.leave()
	case n < 950:
		return c.queue()
	default:
		return c.fault()
	}
}

// fault picks a fault of both stores.
func (c *comparison) fault() (string, step) {
	name := c.name()
	switch n := c.rand.IntN(50); {
	case n < 15:
		return "the end of the lease of " + name, hook(func(h Hooks) error { return h.Expire(name) })
	case n < 30:
		o := c.some(name).Owner
		return fmt.Sprintf("the end of what %q holds of %s", o, name),
			hook(func(h Hooks) error { return h.ExpireHold(name, o) })
	case n < 46:
		o := c.owner(c.kind(name))
		return fmt.Sprintf("the end of the place of %q at %s", o, name),
			hook(func(h Hooks) error { return h.ExpirePlace(name, o) })
	case n < 48:
		return "something else at " + name, hook(func(h Hooks) error { return h.Occupy(name) })
	default:
		return "a loss of all data", hook(func(h Hooks) error { return h.Lose() })
	}
}

func hook(do func(Hooks) error) step {
	return func(_ context.Context, s *side) outcome { return outcome{Err: class(do(s.Hooks))} }
}

// Few names and owners meet often.

var names = []string{"a", "b", "{a}", "{a}b", "c"}

func (c *comparison) name() string { return names[c.rand.IntN(len(names))] }

// has says whether both sides have locks of a kind.
func (c *comparison) has(kind lock.Kind) bool { return c.sides[0].has(kind) && c.sides[1].has(kind) }

// any is a kind that both have.
func (c *comparison) any() lock.Kind {
	for {
		if kind := allKinds[c.rand.IntN(len(allKinds))]; c.has(kind) {
			return kind
		}
	}
}

// kind is a random kind, mostly the usual one of the name.
func (c *comparison) kind(name string) lock.Kind {
	if c.usual[name] == 0 || c.rand.IntN(200) == 0 {
		c.usual[name] = c.any()
	}
	usual := c.usual[name]
	switch n := c.rand.IntN(20); {
	case n < 2:
		return c.any()
	case n < 10 && usual == lock.Write: // these two come together
		return lock.Read
	case n < 10 && usual == lock.Read:
		return lock.Write
	case n < 5 && usual == lock.Fair:
		return lock.Exclusive
	}
	return usual
}

// rwSuffix ends most owners of read and write holds.
const rwSuffix = "/rw"

// owner is a random owner for a kind. Nearly always, owners of one kind differ from those of others.
func (c *comparison) owner(kind lock.Kind) lock.Owner {
	o := Full([]lock.Owner{"s1:x", "s1:y", "s2:x", "s2:#1"}[c.rand.IntN(4)])
	if c.rand.IntN(50) == 0 {
		kind = c.any()
	}
	switch kind {
	case lock.Read, lock.Write:
		return o + rwSuffix
	case lock.Semaphore:
		return o + "/permits"
	default:
		return o
	}
}

func (c *comparison) owners(kind lock.Kind) []lock.Owner {
	os := make([]lock.Owner, c.rand.IntN(4))
	for i := range os {
		os[i] = c.owner(kind)
	}
	return os
}

// ttl is one of a few TTLs that differ so much that a wrong one is noticed.
func (c *comparison) ttl() time.Duration {
	return []time.Duration{10 * time.Second, time.Minute, time.Hour}[c.rand.IntN(3)]
}

// fence is the number of one of the last fences of a name, of none, or of one that was never given out.
func (c *comparison) fence(name string) int {
	last := len(c.sides[0].known(name)) - 1
	return [...]int{0, 1, last, last, last, max(0, last-1), max(0, last-2), max(0, last-3)}[c.rand.IntN(8)]
}

// permits is a random Permits of a release or a renewal, which is 0 if it is not known.
func (c *comparison) permits(kind lock.Kind) uint32 {
	if kind != lock.Semaphore {
		return 0
	}
	return [...]uint32{0, 1, 1, 2, 2, 3, 5}[c.rand.IntN(7)]
}

func (c *comparison) claim(name string) lock.Claim {
	kind := c.kind(name)
	claim := lock.Claim{Name: name, Kind: kind, Owner: c.owner(kind), TTL: c.ttl()}
	switch kind {
	case lock.Read:
		if c.rand.IntN(2) == 0 {
			claim.WriteOwner = c.owner(kind)
		}
	case lock.Semaphore:
		claim.Permits = max(1, c.permits(kind))
		claim.Limit = [...]uint32{0, 3, 3, 3, 4}[c.rand.IntN(5)]
	default:
	}
	return claim
}

func (c *comparison) acquire() (string, step) {
	claim := c.claim(c.name())
	if c.rand.IntN(5) < 2 { // mostly by who has it already
		if claim = c.some(claim.Name).Claim; claim.Kind == lock.Semaphore {
			claim.Permits = max(1, claim.Permits)
		}
	}
	claim.TTL, claim.Place = c.ttl(), 0
	if claim.Kind.Placed() && c.rand.IntN(2) == 0 {
		claim.Place = time.Minute
	}
	ahead := 0
	if claim.Kind != lock.Semaphore {
		ahead = c.ahead()
	}
	what := fmt.Sprintf("acquire %+v with a fence %d more than the last", claim, ahead)
	return what, func(ctx context.Context, s *side) outcome {
		claim := claim
		if ahead > 0 {
			claim.Fence = s.later(claim.Name, ahead)
		}
		return c.one(ctx, s, single{claim: &claim})
	}
}

// ahead is by how much a proposed fence is greater than all before; 0 proposes none. It is small, because the clock
// must have passed the fence when the store forgets it.
func (c *comparison) ahead() int { return [...]int{0, 0, 0, 1, 5}[c.rand.IntN(5)] }

// later is a fence that is ahead of all that are known, and of the store's last one, which nobody may have been told.
func (s *side) later(name string, by int) lock.Fence {
	last := slices.Max(s.known(name))
	if st, err := s.Store.Look(context.Background(), name); err == nil {
		last = max(last, st.Fence)
	}
	return last + lock.Fence(by) //nolint:gosec // it is small
}

// raise raises the fence of a hold, mostly to a greater one.
func (c *comparison) raise() (string, step) {
	g, ahead := c.some(c.name()), c.ahead()
	claim := g.Claim
	what := fmt.Sprintf("raise the fence %d of %+v to %d more than the last", g.number, claim, ahead)
	return what, func(ctx context.Context, s *side) outcome {
		claim := claim
		if claim.Fence = s.fence(claim.Name, g.number); ahead > 0 {
			claim.Fence = s.later(claim.Name, ahead)
		}
		_, err := s.Store.Raise(ctx, claim)
		o := outcome{Err: class(err)}
		if err == nil && ahead > 0 {
			o.Fence = s.number(claim.Name, claim.Fence)
			c.granted(s, claim, o.Fence)
		}
		return o
	}
}

func (c *comparison) acquireAll() (string, step) {
	claims := make([]lock.Claim, 1+c.rand.IntN(3))
	for i, at := range c.rand.Perm(len(names))[:len(claims)] {
		claims[i] = c.claim(names[at])
	}
	return fmt.Sprintf("acquire all of %+v", claims), func(ctx context.Context, s *side) outcome {
		gs, err := s.Store.AcquireAll(ctx, slices.Clone(claims))
		o := outcome{Err: class(s.refusal(ctx, err, claims...)), Left: []time.Duration{retryAfter(err)}}
		var numbers []int
		for i, g := range gs {
			numbers = append(numbers, s.number(claims[i].Name, g.Fence))
			c.granted(s, claims[i], numbers[i])
			o.Left = append(o.Left, g.TTL)
		}
		o.Rest = numbers
		return o
	}
}

func (c *comparison) release() (string, step) {
	g := c.some(c.name())
	kind := g.Kind
	r := lock.Return{Name: g.Name, Kind: kind, Owner: g.Owner, Permits: g.Permits}
	switch n := c.rand.IntN(4); {
	case n == 0 && kind == lock.Semaphore:
		r.Keep = c.rand.Uint32N(4)
	case n == 1 && !kind.Shared():
		r.Next = &lock.Successor{Owner: c.owner(kind), TTL: c.ttl()}
	case n == 2 && kind == lock.Fair:
		r.Place = c.ttl()
	}
	o := single{back: &r, number: g.number}
	return o.String(), func(ctx context.Context, s *side) outcome { return c.one(ctx, s, o) }
}

func (c *comparison) renew() (string, step) {
	rs := make([]lock.Renewal, c.rand.IntN(4))
	fences := make([]int, len(rs))
	for i := range rs {
		g := c.some(c.name())
		rs[i] = lock.Renewal{Name: g.Name, Kind: g.Kind, Owner: g.Owner, TTL: c.ttl(), Permits: g.Permits}
		if c.rand.IntN(4) == 0 {
			rs[i].TTL = 0
		}
		fences[i] = g.number
	}
	extend := len(rs) == 1 && c.rand.IntN(2) == 0
	return fmt.Sprintf("renew %+v with fences %d, extend %v", rs, fences, extend),
		func(ctx context.Context, s *side) outcome {
			for i := range rs {
				rs[i].Fence = s.fence(rs[i].Name, fences[i])
				rs[i].Seen = s.seen(rs[i].Name, rs[i].Fence)
			}
			if extend {
				left, err := await(ctx, s.Store.StartExtend, rs[0])
				if rs[0].TTL == 0 {
					left = 0
				}
				return outcome{Err: class(err), Left: []time.Duration{left}}
			}
			results := make([]string, len(rs))
			s.Store.Renew(ctx, rs, func(i int, err error) { results[i] += "done " + class(err) })
			return outcome{Rest: results}
		}
}

func (c *comparison) shorten() (string, step) {
	g, ttl := c.some(c.name()), c.ttl()
	r := lock.Renewal{Name: g.Name, Kind: g.Kind, Owner: g.Owner, TTL: ttl, Permits: g.Permits}
	return fmt.Sprintf("shorten %+v with fence %d", r, g.number), func(ctx context.Context, s *side) outcome {
		r := r
		r.Fence = s.fence(r.Name, g.number)
		r.Seen = s.seen(r.Name, r.Fence)
		o := outcome{Err: class(s.Store.Shorten(ctx, r))}
		st, err := s.Store.Look(ctx, r.Name)
		if err == nil && o.Err == "" {
			o.Left = []time.Duration{st.TTL}
		}
		return o
	}
}

func (c *comparison) force() (string, step) {
	name := c.name()
	kind := c.kind(name)
	return fmt.Sprintf("force release %s as %v", name, kind), func(ctx context.Context, s *side) outcome {
		held, err := s.Store.ForceRelease(ctx, name, kind)
		return outcome{Err: class(err), Rest: held}
	}
}

func (c *comparison) look() (string, step) {
	name := c.name()
	return "look at " + name, func(ctx context.Context, s *side) outcome {
		st, err := s.Store.Look(ctx, name)
		number, left, rest := s.state(st)
		return outcome{Err: class(err), Fence: number, Left: []time.Duration{left}, Rest: rest}
	}
}

func (c *comparison) setLimit() (string, step) {
	name, limit := c.name(), 1+c.rand.Uint32N(5)
	return fmt.Sprintf("set the limit of %s to %d", name, limit), func(ctx context.Context, s *side) outcome {
		previous, err := s.Store.SetLimit(ctx, name, limit)
		return outcome{Err: class(err), Rest: previous}
	}
}

func (c *comparison) removeLimit() (string, step) {
	name := c.name()
	return "remove the limit of " + name, func(ctx context.Context, s *side) outcome {
		previous, err := s.Store.RemoveLimit(ctx, name)
		return outcome{Err: class(err), Rest: previous}
	}
}

func (c *comparison) adoptLimit() (string, step) {
	name, limit := c.name(), 1+c.rand.Uint32N(5)
	return fmt.Sprintf("adopt a limit of %d for %s", limit, name), func(ctx context.Context, s *side) outcome {
		return outcome{Err: class(s.Store.AdoptLimit(ctx, name, limit))}
	}
}

func (c *comparison) list() (string, step) {
	prefix := []string{"", "a", "{", "b"}[c.rand.IntN(4)]
	size := 1 + c.rand.IntN(5)
	return fmt.Sprintf("list %q", prefix), func(ctx context.Context, s *side) outcome { return s.list(ctx, prefix, size) }
}

func (c *comparison) enlist() (string, step) {
	name, owners := c.name(), c.owners(lock.Fair)
	return fmt.Sprintf("enlist %q for %s", owners, name), func(ctx context.Context, s *side) outcome {
		places, err := s.Store.Enlist(ctx, name, owners, time.Minute)
		return outcome{Err: class(err), Rest: append([]int{}, places...)}
	}
}

func (c *comparison) leave() (string, step) {
	name, kind := c.name(), []lock.Kind{lock.Fair, lock.Write}[c.rand.IntN(2)]
	if !c.has(kind) {
		kind = lock.Write
	}
	owners := c.owners(kind)
	return fmt.Sprintf("let %q leave %s as %v", owners, name, kind), func(ctx context.Context, s *side) outcome {
		return outcome{Err: class(s.Store.Leave(ctx, name, kind, owners))}
	}
}

func (c *comparison) queue() (string, step) {
	name, size := c.name(), c.rand.IntN(6)
	return fmt.Sprintf("read %d of the queue of %s", size, name), func(ctx context.Context, s *side) outcome {
		owners, err := s.Store.Queue(ctx, name, size)
		return outcome{Err: class(err), Rest: append([]lock.Owner{}, owners...)}
	}
}
