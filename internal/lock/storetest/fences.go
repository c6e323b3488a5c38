package storetest

import (
	"context"

	"github.com/lockd-io/lockd/internal/lock"
)

// proposed is a fence that is far ahead of every clock.
const proposed = lock.Fence(8_000_000_000_000_000)

// fenceContract is what a Store does with fences that are given to it: they keep their order whatever they are.
var fenceContract = []contract{
	{"AClaimIsGivenAtLeastTheFenceItBrings", func(s *suite) {
		s.eachKind(func(c lock.Claim) {
			c.Fence = proposed
			s.wantFence(s.acquire(c).Fence, proposed)
			s.wantFence(s.acquire(c).Fence, proposed)
		})
	}},
	{"AHandoffGivesAtLeastTheFenceItBrings", func(s *suite) {
		for _, kind := range s.these(lock.Exclusive, lock.Write) {
			// More for each kind, as below.
			proposed := proposed + 1_000_000*lock.Fence(kind)
			c := of(kind, "n-"+kind.String(), "o")
			r := over(back(c, s.acquire(c).Fence), "successor")
			r.Next.Fence = proposed
			for range 2 { // the second one finds what the first one did
				s.wantFence(s.release(r).HandedOver, proposed)
			}
			last := over(back(of(kind, c.Name, "successor"), proposed), "next")
			last.Next.Fence = 1
			s.wantFence(s.release(last).HandedOver, proposed+1)
		}
	}},
	{"ASmallOneIsNotGivenTwice", func(s *suite) {
		s.eachKind(func(c lock.Claim) {
			first := s.acquire(c).Fence
			s.release(back(c, first))
			c.Fence = 1
			s.wantFence(s.acquire(c).Fence, first+1)
		})
	}},
	{"AllOfSeveralClaimsAreGivenThem", func(s *suite) {
		var cs []lock.Claim
		s.eachKind(func(c lock.Claim) {
			c.Fence = proposed + lock.Fence(len(cs))
			cs = append(cs, c)
		})
		gs, err := s.Store.AcquireAll(s.Context(), cs)
		s.must(err)
		for i, g := range gs {
			s.wantFence(g.Fence, cs[i].Fence)
		}
	}},
	{"RaisedTheHoldAndItsNameHaveTheFence", func(s *suite) {
		s.eachKind(func(c lock.Claim) {
			first := s.acquire(c).Fence
			// More for each kind: a Store may give every name greater fences than any it has seen.
			proposed := proposed + 1_000_000*lock.Fence(c.Kind)
			raised := c
			raised.Fence = proposed
			s.wantRaised(raised, proposed)
			s.wantRaised(raised, proposed)
			raised.Fence = first
			s.wantRaised(raised, proposed) // late: it lowers nothing
			s.wantFence(s.look(c.Name).Fence, proposed)
			s.release(back(c, proposed))
			s.wantFence(s.acquire(c).Fence, proposed+1)
			raised.Fence = proposed + 10
			s.wantRaised(raised, raised.Fence)
			s.wantFence(s.acquire(c).Fence, raised.Fence)
		})
	}},
	{"RaisedByNothingAHoldTellsItsFence", func(s *suite) {
		s.eachKind(func(c lock.Claim) {
			s.refusesToRaise(s.Context(), c, lock.ErrNotHeld)
			f := s.acquire(c).Fence
			if c.Kind == lock.Read { // others have greater ones, and the last of the name is not its own
				s.acquire(of(c.Kind, c.Name, "other"))
			}
			last := s.look(c.Name).Fence
			s.wantRaised(c, f)
			if _, err := await(s.Context(), s.Store.StartExtend, on(c, 0)); err != nil {
				s.Errorf("%v: extend: %v", c.Kind, err)
			}
			s.wantRaised(c, f)
			s.wantFence(s.acquire(c).Fence, f)
			s.wantFence(s.look(c.Name).Fence, last)
		})
	}},
	{"OnlyTheHolderRaisesAFence", func(s *suite) {
		s.eachKind(func(c lock.Claim) {
			other := of(c.Kind, c.Name, "other")
			other.Fence = proposed
			s.refusesToRaise(s.Context(), other, lock.ErrNotHeld)
			f := s.acquire(c).Fence
			s.refusesToRaise(s.Context(), other, lock.ErrNotHeld)
			s.wantFence(s.look(c.Name).Fence, f)
		})
	}},
	{"NothingElseIsRaised", func(s *suite) {
		c := claim("n", "o")
		s.must(s.Hooks.Occupy("n"))
		c.Fence = proposed
		s.refusesToRaise(s.Context(), c, lock.ErrKindMismatch)
		if s.has(lock.Semaphore) {
			c.Kind, c.Name = lock.Semaphore, "permits"
			s.refusesToRaise(s.Context(), c, lock.ErrUnsupported)
		}
		c.Kind = lock.Exclusive
		s.refusesToRaise(s.ended(), c, lock.ErrUnavailable)
	}},
}

// wantRaised raises the fence of a hold, and wants it to be want then.
func (s *suite) wantRaised(c lock.Claim, want lock.Fence) {
	s.Helper()
	if f, err := s.Store.Raise(s.Context(), c); err != nil || f != want {
		s.Errorf("%v: raise to %d: got %d, %v, want %d", c.Kind, c.Fence, f, err, want)
	}
}

func (s *suite) refusesToRaise(ctx context.Context, c lock.Claim, want error) {
	s.Helper()
	s.wantErr(errOf(s.Store.Raise(ctx, c)), want)
}

// eachKind calls f with a claim of each kind whose holds have fences, for a name of its own.
func (s *suite) eachKind(f func(lock.Claim)) {
	for _, kind := range s.these(lock.Exclusive, lock.Fair, lock.Read, lock.Write) {
		if f(of(kind, "of "+kind.String(), "o")); s.Failed() {
			s.Fatalf("of kind %v", kind)
		}
	}
}
