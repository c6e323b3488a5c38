package storetest

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

var releaseContract = []contract{
	{"TheNameIsFree", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.release(giveBack("n", "o", f))
		s.wantHolder("n", "", 0)
		s.acquire(claim("n", "other"))
	}},
	{"RepeatedItIsNotHeld", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.release(giveBack("n", "o", f))
		_, err := s.Store.Release(s.Context(), giveBack("n", "o", f))
		s.wantErr(err, lock.ErrNotHeld)
	}},
	{"ANameNobodyHoldsIsNotHeld", func(s *suite) {
		_, err := s.Store.Release(s.Context(), giveBack("n", "o", 0))
		s.wantErr(err, lock.ErrNotHeld)
	}},
	{"TheHoldOfAnotherStays", func(s *suite) {
		f := s.acquire(claim("n", "other")).Fence
		_, err := s.Store.Release(s.Context(), giveBack("n", "o", f))
		s.wantErr(err, lock.ErrNotHeld)
		s.wantHolder("n", "other", 1)
	}},
	{"ExecutedLateItTouchesNobodysHold", func(s *suite) {
		old := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Expire("n"))
		f := s.acquire(claim("n", "other")).Fence
		_, err := s.Store.Release(s.Context(), giveBack("n", "o", old))
		s.wantErr(err, lock.ErrNotHeld)
		s.release(giveBack("n", "other", f))

		s.acquire(claim("n", "o"))
		_, err = s.Store.Release(s.Context(), giveBack("n", "o", old))
		s.wantErr(err, lock.ErrStale)
		s.wantHolder("n", "o", 1)
	}},
	{"FenceZeroMatchesAny", func(s *suite) {
		s.acquire(claim("n", "o"))
		s.release(giveBack("n", "o", 0))
		s.wantHolder("n", "", 0)
	}},
	{"CountedDownTheHoldStaysWithItsLease", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.acquire(nested("n", "o", 3, f))
		r := giveBack("n", "o", f)
		for _, r.Remaining = range []uint32{2, 2, 1} {
			if res := s.release(r); res != (lock.Returned{}) {
				s.Errorf("got %+v, want nothing", res)
			}
			s.wantHolder("n", "o", r.Remaining)
			s.wantTTL(s.look("n").TTL, ttl)
		}
		s.release(giveBack("n", "o", f))
		s.wantHolder("n", "", 0)
	}},
	{"CountedDownByOthersOrWithAnotherFenceNothingHappens", func(s *suite) {
		r := giveBack("n", "o", 0)
		r.Remaining = 1
		_, err := s.Store.Release(s.Context(), r)
		s.wantErr(err, lock.ErrNotHeld)
		old := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Expire("n"))
		f := s.acquire(claim("n", "o")).Fence
		s.acquire(nested("n", "o", 2, f))
		r.Fence = old
		_, err = s.Store.Release(s.Context(), r)
		s.wantErr(err, lock.ErrStale)
		s.wantHolder("n", "o", 2)
	}},
	{"TheLastFenceIsRemembered", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.release(giveBack("n", "o", f))
		if got := s.look("n").Fence; got != f {
			s.Errorf("got fence %d, want %d", got, f)
		}
	}},
}

// handOver gives a name to heir with the usual lease.
func handOver(name string, o lock.Owner, f lock.Fence, heir lock.Owner) lock.Return {
	r := giveBack(name, o, f)
	r.Next = &lock.Successor{Owner: heir, TTL: ttl}
	return r
}

var handOverContract = []contract{
	{"TheSuccessorHoldsOnceWithItsOwnLease", func(s *suite) {
		c := claim("n", "o")
		c.TTL = 10 * ttl
		f := s.acquire(c).Fence
		s.acquire(nested("n", "o", 3, f))
		if got := s.release(handOver("n", "o", f, "heir")).HandedOver; got <= f {
			s.Errorf("got fence %d, want more than %d", got, f)
		}
		s.wantHolder("n", "heir", 1)
		s.wantTTL(s.look("n").TTL, ttl) // set, not prolonged
		_, err := s.Store.Acquire(s.Context(), claim("n", "o"))
		s.wantErr(err, lock.ErrHeld)
	}},
	{"RepeatedItGivesTheSameFence", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		first := s.release(handOver("n", "o", f, "heir"))
		for range 2 {
			if again := s.release(handOver("n", "o", f, "heir")); again.HandedOver != first.HandedOver {
				s.Errorf("got fence %d, want %d again", again.HandedOver, first.HandedOver)
			}
		}
		s.must(s.renew(renewal("n", "heir", first.HandedOver)))
	}},
	{"WhoHasItAlreadyHasItForAtLeastThatLong", func(s *suite) {
		for _, kind := range s.these(lock.Exclusive, lock.Fair, lock.Write) {
			c := of(kind, "n-"+kind.String(), "heir")
			f := s.acquire(c).Fence
			r := back(of(kind, c.Name, "o"), 1) // it had the name before
			for _, lasts := range []time.Duration{10 * ttl, 5 * ttl} {
				r.Next = &lock.Successor{Owner: "heir", TTL: lasts}
				if res := s.release(r); res.HandedOver != f {
					s.Errorf("%v: got fence %d, want %d", kind, res.HandedOver, f)
				}
				s.wantTTL(s.look(c.Name).TTL, 10*ttl)
			}
			s.must(s.renew(on(c, f)))
			s.release(back(c, f))
		}
	}},
	{"RepeatedAfterTheSuccessorLeftItIsNotHeld", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		next := s.release(handOver("n", "o", f, "heir")).HandedOver
		s.release(giveBack("n", "heir", next))
		_, err := s.Store.Release(s.Context(), handOver("n", "o", f, "heir"))
		s.wantErr(err, lock.ErrNotHeld)
		s.wantHolder("n", "", 0)
	}},
	{"WhatIsNotHeldIsNotHandedOver", func(s *suite) {
		_, err := s.Store.Release(s.Context(), handOver("n", "o", 0, "heir"))
		s.wantErr(err, lock.ErrNotHeld)
		s.acquire(claim("n", "other"))
		_, err = s.Store.Release(s.Context(), handOver("n", "o", 0, "heir"))
		s.wantErr(err, lock.ErrNotHeld)
		s.wantHolder("n", "other", 1)
	}},
	{"AnotherFenceIsStale", func(s *suite) {
		old := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Expire("n"))
		s.acquire(claim("n", "o"))
		_, err := s.Store.Release(s.Context(), handOver("n", "o", old, "heir"))
		s.wantErr(err, lock.ErrStale)
		s.wantHolder("n", "o", 1)
	}},
}

var renewContract = []contract{
	{"TheLeaseIsProlonged", func(s *suite) {
		c := claim("n", "o")
		c.TTL = 10 * time.Second
		f := s.acquire(c).Fence
		s.must(s.renew(renewal("n", "o", f)))
		s.wantTTL(s.look("n").TTL, ttl)
	}},
	{"TheLeaseIsNeverShortened", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		r := renewal("n", "o", f)
		r.TTL = time.Second
		s.must(s.renew(r))
		s.wantTTL(s.look("n").TTL, ttl)
	}},
	{"TTLZeroOnlyVerifies", func(s *suite) {
		c := claim("n", "o")
		c.TTL = 10 * time.Second
		f := s.acquire(c).Fence
		r := renewal("n", "o", f)
		r.TTL = 0
		s.must(s.renew(r))
		s.wantTTL(s.look("n").TTL, 10*time.Second)
		s.must(s.Hooks.Expire("n"))
		s.wantGone(s.renew(r), lock.LostForced)
	}},
	{"WhatIsGoneStaysGone", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Expire("n"))
		s.wantGone(s.renew(renewal("n", "o", f)), lock.LostForced)
		s.wantHolder("n", "", 0)
	}},
	{"TheHoldOfAnotherStays", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Expire("n"))
		c := claim("n", "other")
		c.TTL = 10 * time.Second
		s.acquire(c)
		s.wantGone(s.renew(renewal("n", "o", f)), lock.LostForced)
		s.wantHolder("n", "other", 1)
		s.wantTTL(s.look("n").TTL, 10*time.Second)
	}},
	{"AnEarlierHoldOfTheSameOwnerIsGone", func(s *suite) {
		old := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Expire("n"))
		c := claim("n", "o")
		c.TTL = 10 * time.Second
		s.acquire(c)
		s.wantGone(s.renew(renewal("n", "o", old)), lock.LostForced)
		s.wantTTL(s.look("n").TTL, 10*time.Second)
	}},
	{"AfterAForcedReleaseItIsForced", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		_, err := s.Store.ForceRelease(s.Context(), "n", lock.Exclusive)
		s.must(err)
		s.wantGone(s.renew(renewal("n", "o", f)), lock.LostForced)
	}},
	{"AfterALossOfDataItIsDataLoss", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Lose())
		s.wantGone(s.renew(renewal("n", "o", f)), lock.LostData)
	}},
	{"EachOfManyIsAnsweredOnceBeforeItReturns", manyRenewals},
	{"NoneIsNoWork", func(s *suite) {
		s.Store.Renew(s.Context(), nil, func(int, error) { s.Error("done was called") })
	}},
}

var forceContract = []contract{
	{"TheNameIsFreeWhoeverHeldIt", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		s.acquire(nested("n", "o", 3, f))
		held, err := s.Store.ForceRelease(s.Context(), "n", lock.Exclusive)
		s.must(err)
		if !held {
			s.Error("it says that the name was not held")
		}
		s.wantHolder("n", "", 0)
	}},
	{"AFreeNameWasNotHeld", func(s *suite) {
		for _, step := range []string{"never used", "released"} {
			held, err := s.Store.ForceRelease(s.Context(), "n", lock.Exclusive)
			s.must(err)
			if held {
				s.Errorf("it says that a name was held that was %s", step)
			}
			s.acquire(claim("n", "o"))
			s.release(giveBack("n", "o", 0))
		}
	}},
	{"TheHolderCannotReleaseAnyMore", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		_, err := s.Store.ForceRelease(s.Context(), "n", lock.Exclusive)
		s.must(err)
		_, err = s.Store.Release(s.Context(), giveBack("n", "o", f))
		s.wantErr(err, lock.ErrNotHeld)
	}},
}
