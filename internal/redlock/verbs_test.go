package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What the clients of a storm do.

// holds are names that a client has, and until when.
type holds struct {
	*storm
	store *Store
	cs    []lock.Claim
	gs    []lock.Grant
	ends  []time.Time
}

// client takes names until ctx ends. It keeps some to the end of their lease and beyond.
func (s *storm) client(ctx context.Context) {
	for ctx.Err() == nil {
		c := claimOf("n", s.newOwner())
		store := s.store()
		c.TTL = s.ttl()
		cs := []lock.Claim{c}
		switch n := s.intN(10); {
		case n < 3:
			cs[0].Name, cs[0].Kind = "rw", []lock.Kind{lock.Read, lock.Read, lock.Write}[n]
		case n == 3:
			other := c
			other.Name, other.Kind = "rw", lock.Write
			cs = append(cs, other)
		}
		for h := s.get(ctx, store, cs); h != nil; {
			h = h.keep(ctx)
		}
		pause(ctx, s.duration(50*time.Millisecond))
	}
}

func (s *storm) newOwner() lock.Owner {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.owner++
	return lock.Owner(fmt.Sprint("o", s.owner))
}

func (s *storm) ttl() time.Duration {
	return []time.Duration{s.shortest, s.longest}[s.intN(2)]
}

// get asks for names a few times. What may be left is undone by the store.
func (s *storm) get(ctx context.Context, store *Store, cs []lock.Claim) *holds {
	for range 1 + s.intN(10) {
		start := time.Now()
		until := start.Add(cs[0].TTL)
		gs, err := ask(store, cs)
		if err == nil && time.Now().Before(until) {
			h := &holds{storm: s, store: store, cs: cs, gs: gs}
			for i, c := range cs {
				s.granted(c, gs[i], start, until)
				h.ends = append(h.ends, until)
			}
			return h
		}
		if err == nil { // too late
			for i, c := range cs {
				s.release(store, lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: gs[i].Fence})
			}
		}
		next := s.duration(100 * time.Millisecond)
		if held, is := errors.AsType[*lock.HeldError](err); is {
			next = min(held.RetryAfter, 300*time.Millisecond)
		}
		pause(ctx, next)
	}
	return nil
}

func ask(store *Store, cs []lock.Claim) ([]lock.Grant, error) {
	if len(cs) > 1 {
		return store.AcquireAll(context.Background(), cs)
	}
	g, err := lock.Await(context.Background(), store.StartAcquire, cs[0])
	return []lock.Grant{g}, err
}

// release releases, once.
func (s *storm) release(store *Store, r lock.Return) {
	_, _ = lock.Await(context.Background(), store.StartRelease, r)
}

// keep has names for a while, and does with them what can be done. It returns what was handed over at the end, if it
// was.
func (h *holds) keep(ctx context.Context) (next *holds) {
	for h.intN(4) > 0 {
		pause(ctx, h.duration(h.cs[0].TTL/4))
		i := h.intN(len(h.cs))
		switch n := h.intN(10); {
		case n < 5:
			h.renew()
		case n < 8:
			h.extend(i)
		default:
			h.shorten(i)
		}
	}
	if c := h.cs[0]; len(h.cs) == 1 && !c.Kind.Shared() && h.intN(2) == 0 {
		return h.handOver(ctx)
	}
	leave := h.leaves && h.intN(3) == 0
	for i, c := range h.cs {
		if leave { // it does not release it
			pause(ctx, time.Until(h.ends[i]))
		}
		h.ended(c)
		if !leave {
			h.release(h.store, lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: h.gs[i].Fence})
		}
	}
	return nil
}

func (h *holds) renewal(i int) lock.Renewal {
	c := h.cs[i]
	return lock.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: h.gs[i].Fence, TTL: c.TTL}
}

// alive says whether the client believes in a hold yet. If not, no answer makes it believe again.
func (h *holds) alive(i int) bool { return time.Now().Before(h.ends[i]) }

// lasts notes an answer to a call that began at a time.
func (h *holds) lasts(what string, i int, start, until time.Time) {
	if h.alive(i) && until.After(h.ends[i]) {
		h.ends[i] = until
		h.prolonged(what, h.cs[i], start, until)
	}
}

// renew prolongs all holds, as the Keeper does.
func (h *holds) renew() {
	rs := make([]lock.Renewal, len(h.cs))
	for i := range h.cs {
		rs[i] = h.renewal(i)
	}
	start := time.Now()
	h.store.Renew(context.Background(), rs, func(i int, err error) {
		if err == nil {
			h.lasts("a renewal", i, start, start.Add(h.cs[i].TTL))
		}
	})
}

// extend prolongs a hold at the wish of a client.
func (h *holds) extend(i int) {
	r := h.renewal(i)
	r.TTL = h.ttl()
	start := time.Now()
	left, err := lock.Await(context.Background(), h.store.StartExtend, r)
	if err != nil {
		return
	}
	if left < r.TTL {
		h.failed("an extension of %v lasts for %v", r.TTL, left)
	}
	h.lasts("an extension", i, start, start.Add(left))
}

// shorten has a hold end soon. From the beginning of the call on the earlier end counts, unless surely nothing was
// done.
func (h *holds) shorten(i int) {
	r := h.renewal(i)
	r.TTL = h.duration(r.TTL)
	start, since, was := time.Now(), h.since(h.cs[i]), h.ends[i]
	if until := start.Add(r.TTL); until.Before(was) {
		h.ends[i] = until
		h.atMost(h.cs[i], until)
	}
	err := h.store.Shorten(context.Background(), r)
	switch {
	case err == nil:
		h.count("shortenings")
	case errors.Is(err, lock.ErrUnavailable) && !errors.Is(err, lock.ErrOutcomeUnknown):
		if time.Now().Before(was) {
			h.ends[i] = was
			h.prolonged("a shortening that was not done", h.cs[i], since, was)
		}
	}
}

// operator frees names by force now and then.
func (s *storm) operator(ctx context.Context) {
	for {
		pause(ctx, 2*time.Second+s.duration(8*time.Second))
		if ctx.Err() != nil {
			return
		}
		name, kind := "n", lock.Exclusive
		switch s.intN(4) {
		case 0:
			name, kind = "rw", lock.Read
		case 1:
			name, kind = "rw", lock.Write
		}
		store := s.store()
		over := s.forced(name)
		_, _ = store.ForceRelease(context.Background(), name, kind)
		over()
	}
}
