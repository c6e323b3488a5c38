package storetest

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

var acquireContract = []contract{
	{"AFreeNameIsGranted", func(s *suite) {
		g := s.acquire(claim("n", "o"))
		if g.Fence == 0 || g.TTL < ttl {
			s.Errorf("got fence %d and TTL %v, want a fence and at least %v", g.Fence, g.TTL, ttl)
		}
		s.wantHolder("n", "o", 1)
	}},
	{"AHeldNameIsRefusedWithOwnerAndRemainingTime", func(s *suite) {
		s.acquire(claim("n", "o"))
		_, err := s.Store.Acquire(s.Context(), claim("n", "other"))
		held, ok := errors.AsType[*lock.HeldError](err)
		if !ok {
			s.Fatalf("got %v, want a HeldError", err)
		}
		s.wantErr(err, lock.ErrHeld)
		s.wantTTL(held.RetryAfter, ttl)
		if held.HeldBy != "o" {
			s.Errorf("got holder %q, want o", held.HeldBy)
		}
		s.wantHolder("n", "o", 1)
	}},
	{"RepeatedItGivesTheSameFenceAndCount", func(s *suite) {
		first := s.acquire(claim("n", "o"))
		for range 3 {
			if again := s.acquire(claim("n", "o")); again.Fence != first.Fence {
				s.Errorf("got fence %d, want %d again", again.Fence, first.Fence)
			}
		}
		s.wantHolder("n", "o", 1)
	}},
	{"RepeatedItNeverShortensTheLease", func(s *suite) {
		s.acquire(claim("n", "o"))
		short := claim("n", "o")
		short.TTL = time.Second
		s.wantTTL(s.acquire(short).TTL, ttl)
		s.wantTTL(s.look("n").TTL, ttl)
	}},
	{"NamesAreIndependent", func(s *suite) {
		s.acquire(claim("n", "o"))
		s.acquire(claim("m", "other"))
		s.wantHolder("n", "o", 1)
		s.wantHolder("m", "other", 1)
	}},
	{"NamesThatDifferByBracesAreIndependent", func(s *suite) {
		for _, n := range []string{"n", "{n}", "{n}x", "x{n}", "{n}}"} {
			f := s.acquire(claim(n, "o")).Fence
			s.must(s.renew(renewal(n, "o", f)))
		}
		for _, n := range []string{"n", "{n}"} {
			s.wantHolder(n, "o", 1)
			s.acquire(claim(n, "o"))
		}
		f := s.acquire(claim("n", "o")).Fence
		s.release(giveBack("{n}", "o", 0))
		s.acquire(claim("{n}", "other"))
		s.release(giveBack("n", "o", f))
	}},
	{"AfterTheLeaseEndedTheNameIsFree", func(s *suite) {
		s.acquire(claim("n", "o"))
		s.must(s.Hooks.Expire("n"))
		s.wantHolder("n", "", 0)
		s.acquire(claim("n", "other"))
		s.wantHolder("n", "other", 1)
	}},
	{"ALeaseEndsByItself", func(s *suite) {
		c := claim("n", "o")
		c.TTL = 20 * time.Millisecond
		s.acquire(c)
		deadline := time.Now().Add(within)
		for s.look("n").Held {
			if time.Now().After(deadline) {
				s.Fatal("the lease does not end")
			}
			time.Sleep(time.Millisecond)
		}
		s.acquire(claim("n", "other"))
	}},
	{"EachLaterGrantHasAGreaterFence", func(s *suite) {
		var last lock.Fence
		greater := func(after string, f lock.Fence) {
			s.Helper()
			if f <= last {
				s.Errorf("after %s got fence %d, want more than %d", after, f, last)
			}
			last = f
		}
		greater("nothing", s.acquire(claim("n", "o")).Fence)
		s.release(giveBack("n", "o", last))
		greater("a release", s.acquire(claim("n", "o")).Fence)
		s.must(s.Hooks.Expire("n"))
		greater("the end of a lease", s.acquire(claim("n", "o")).Fence)
		_, err := s.Store.ForceRelease(s.Context(), "n", lock.Exclusive)
		s.must(err)
		greater("a forced release", s.acquire(claim("n", "o")).Fence)
		r := giveBack("n", "o", last)
		r.Next = &lock.Successor{Owner: "heir", TTL: ttl}
		greater("a hand-over", s.release(r).HandedOver)
		s.release(giveBack("n", "heir", last))
		greater("a release", s.acquire(claim("n", "o")).Fence)
		s.must(s.Hooks.Lose())
		greater("a loss of all data", s.acquire(claim("n", "o")).Fence)
	}},
}

// nested is a further acquisition by an owner.
func nested(name string, o lock.Owner, count uint32, f lock.Fence) lock.Claim {
	c := claim(name, o)
	c.Count, c.Fence = count, f
	return c
}

var nestedContract = []contract{
	{"TheCountIsAbsoluteAndTheFenceStays", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		for _, count := range []uint32{2, 2, 3, 3, 3} {
			if got := s.acquire(nested("n", "o", count, f)).Fence; got != f {
				s.Errorf("got fence %d, want %d", got, f)
			}
			s.wantHolder("n", "o", count)
		}
	}},
	{"ALongerLeaseProlongsAndAShorterDoesNot", func(s *suite) {
		f := s.acquire(claim("n", "o")).Fence
		c := nested("n", "o", 2, f)
		c.TTL = 2 * ttl
		s.wantTTL(s.acquire(c).TTL, 2*ttl)
		c = nested("n", "o", 3, f)
		c.TTL = time.Second
		s.wantTTL(s.acquire(c).TTL, 2*ttl)
		s.wantTTL(s.look("n").TTL, 2*ttl)
	}},
	{"AFreeNameIsNotHeld", func(s *suite) {
		_, err := s.Store.Acquire(s.Context(), nested("n", "o", 2, 1))
		s.wantErr(err, lock.ErrNotHeld)
		s.wantHolder("n", "", 0)
	}},
	{"ANameOfAnotherIsNotHeld", func(s *suite) {
		f := s.acquire(claim("n", "other")).Fence
		_, err := s.Store.Acquire(s.Context(), nested("n", "o", 2, f))
		s.wantErr(err, lock.ErrNotHeld)
		s.wantHolder("n", "other", 1)
	}},
	{"AnotherFenceIsStale", func(s *suite) {
		old := s.acquire(claim("n", "o")).Fence
		s.must(s.Hooks.Expire("n"))
		s.acquire(claim("n", "o"))
		_, err := s.Store.Acquire(s.Context(), nested("n", "o", 2, old))
		s.wantErr(err, lock.ErrStale)
		s.wantHolder("n", "o", 1)
	}},
}

var refusalContract = []contract{
	{"OtherKindsAreUnsupported", func(s *suite) {
		for _, k := range []lock.Kind{0, lock.Semaphore + 1} {
			c, r, v := claim("n", "o"), giveBack("n", "o", 0), renewal("n", "o", 1)
			c.Kind, r.Kind, v.Kind = k, k, k
			_, err := s.Store.Acquire(s.Context(), c)
			s.wantErr(err, lock.ErrUnsupported)
			_, err = s.Store.Release(s.Context(), r)
			s.wantErr(err, lock.ErrUnsupported)
			s.wantErr(s.renew(v), lock.ErrUnsupported)
			_, err = s.Store.ForceRelease(s.Context(), "n", k)
			s.wantErr(err, lock.ErrUnsupported)
			_, err = s.Store.AcquireAll(s.Context(), []lock.Claim{claim("m", "o"), c})
			s.wantErr(err, lock.ErrUnsupported)
			s.wantHolder("m", "", 0)
			s.wantErr(s.Store.Leave(s.Context(), "n", k, nil), lock.ErrUnsupported)
		}
	}},
	{"ANameInOtherUseIsAMismatch", func(s *suite) {
		s.must(s.Hooks.Occupy("n"))
		_, err := s.Store.Acquire(s.Context(), claim("n", "o"))
		s.wantErr(err, lock.ErrKindMismatch)
		_, err = s.Store.Release(s.Context(), giveBack("n", "o", 0))
		s.wantErr(err, lock.ErrKindMismatch)
		_, err = s.Store.ForceRelease(s.Context(), "n", lock.Exclusive)
		s.wantErr(err, lock.ErrKindMismatch)
		_, err = s.Store.Look(s.Context(), "n")
		s.wantErr(err, lock.ErrKindMismatch)
		// Whatever else is there, the hold is not.
		s.wantErr(s.renew(renewal("n", "o", 1)), lock.ErrNotHeld)
	}},
	{"WithAnEndedContextNothingIsBegun", func(s *suite) {
		_, err := s.Store.Acquire(s.ended(), claim("n", "o"))
		s.wantErr(err, lock.ErrUnavailable)
		s.wantHolder("n", "", 0)
		f := s.acquire(claim("n", "o")).Fence
		_, err = s.Store.Release(s.ended(), giveBack("n", "o", f))
		s.wantErr(err, lock.ErrUnavailable)
		_, err = s.Store.ForceRelease(s.ended(), "n", lock.Exclusive)
		s.wantErr(err, lock.ErrUnavailable)
		s.Store.Renew(s.ended(), []lock.Renewal{renewal("n", "o", f)}, func(_ int, err error) {
			s.wantErr(err, lock.ErrUnavailable)
		})
		_, err = s.Store.Probe(s.ended())
		s.wantErr(err, lock.ErrUnavailable)
		s.wantHolder("n", "o", 1)
	}},
	{"ProbeGivesOneIdentity", func(s *suite) {
		a, err := s.Store.Probe(s.Context())
		s.must(err)
		b, err := s.Store.Probe(s.Context())
		s.must(err)
		if a == "" || a != b {
			s.Errorf("got identities %q and %q, want one", a, b)
		}
	}},
}
