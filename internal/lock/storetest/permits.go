package storetest

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// some is a claim of permits of "n", which has three.
func some(o lock.Owner, permits uint32) lock.Claim {
	c := of(lock.Semaphore, "n", o)
	c.Permits, c.Limit = permits, 3
	return c
}

// wantOut checks how many permits of "n", which has three, are out.
func (s *suite) wantOut(n uint32) {
	s.Helper()
	st := s.look("n")
	if st.Kind != lock.Semaphore || st.Holders != n || st.Limit != 3 || st.Held != (n > 0) || st.Owner != "" {
		s.Errorf("got %+v, want %d of 3 to be out", st, n)
	}
}

// wantLimit checks that an error is a LimitError with this limit.
func (s *suite) wantLimit(err error, want uint32) {
	s.Helper()
	if got, ok := errors.AsType[*lock.LimitError](err); !ok || got.Limit != want {
		s.Errorf("got %v, want a LimitError with %d", err, want)
	}
}

var semaphoreContract = []contract{
	{"AsManyPermitsAsThereAre", func(s *suite) {
		s.acquire(some("a", 2))
		s.refused(some("b", 2))
		s.wantOut(2)
		s.acquire(some("b", 1))
		s.wantOut(3)
		s.refused(some("c", 1))
		s.release(back(some("a", 2), 0))
		s.wantOut(1)
		s.acquire(some("c", 1))
		s.wantOut(2)
	}},
	{"TheLimitIsKept", func(s *suite) {
		s.acquire(some("a", 1))
		s.release(back(some("a", 1), 0))
		for _, limit := range []uint32{1, 2, 4} {
			c := some("a", 1)
			c.Limit = limit
			s.wantLimit(errOf(await(s.Context(), s.Store.StartAcquire, c)), 3)
		}
		c := some("a", 3)
		c.Limit = 0
		s.acquire(c)
		s.wantOut(3)
	}},
	{"WithoutALimitThereIsNothing", func(s *suite) {
		c := some("a", 1)
		c.Limit = 0
		s.wantLimit(errOf(await(s.Context(), s.Store.StartAcquire, c)), 0)
		s.wantState(lock.State{Name: "n"})
	}},
	{"MoreThanThereEverAreIsInvalid", func(s *suite) {
		for range 2 { // of a semaphore that is not there, and of one that is
			_, err := await(s.Context(), s.Store.StartAcquire, some("a", 4))
			if e, ok := errors.AsType[*lock.InvalidError](err); !ok || e.Field != "permits" || e.Reason != lock.ReasonPermits {
				s.Errorf("got %v, want an InvalidError about permits", err)
			}
			s.acquire(some("a", 3))
		}
		s.must(s.Hooks.Expire("n"))
		s.wantErr(errOf(await(s.Context(), s.Store.StartAcquire, some("a", 4))), lock.ErrInvalid)
		c := some("a", 1)
		c.Limit = 7 // nothing was kept of the refused one
		s.acquire(c)
	}},
	{"WhatAnOwnerLacksIsTaken", func(s *suite) {
		s.acquire(some("a", 1))
		s.acquire(some("a", 2))
		s.wantOut(2)
		s.acquire(some("b", 1))
		s.refused(some("a", 3))
		s.wantOut(3)
	}},
	{"AReleaseGivesAllBack", func(s *suite) {
		s.acquire(some("a", 2))
		s.acquire(some("b", 1))
		r := back(some("a", 2), 0)
		r.Permits = 0 // not known
		s.release(r)
		s.wantOut(1)
		s.notHeld(r)
		r.Permits = 2
		s.notHeld(r)
		s.wantOut(1)
		s.release(back(some("b", 1), 0))
		s.wantOut(0)
	}},
	{"PermitsThatEndedComeBack", func(s *suite) {
		f := s.acquire(some("a", 2)).Fence
		s.acquire(some("b", 1))
		s.expireHold("n", "a")
		s.wantOut(1)
		s.wantGone(s.renew(on(some("a", 2), f)), lock.LostForced)
		s.notHeld(back(some("a", 2), f))
		s.acquire(some("c", 2))
		s.wantOut(3)
		s.notHeld(back(some("a", 2), f))
		s.expireHold("n", "c")
		s.acquire(some("d", 2))
		s.refused(some("e", 1))
		s.release(back(some("d", 2), 0))
		s.release(back(some("b", 1), 0))
		s.acquire(some("e", 3))
	}},
	{"AllPermitsAreRenewedOrNone", func(s *suite) {
		c := some("a", 2)
		c.TTL = 10 * time.Second
		f := s.acquire(c).Fence
		s.wantGone(s.renew(on(some("a", 3), f)), lock.LostForced)
		s.wantTTL(s.look("n").TTL, 10*time.Second)
		r := on(c, f)
		r.Permits = 0 // not known
		s.must(s.renew(r))
		s.wantTTL(s.look("n").TTL, ttl)
		s.wantGone(s.renew(on(some("b", 1), f)), lock.LostForced)
	}},
	{"TheNearestEndIsWhenToRetryAndTheLastIsShown", func(s *suite) {
		c := some("a", 1)
		c.TTL = 20 * time.Second
		s.acquire(c)
		s.acquire(some("b", 2))
		s.wantTTL(s.refusedBy("", 0, some("c", 1)).RetryAfter, 20*time.Second)
		s.wantTTL(s.look("n").TTL, ttl)
	}},
	{"AForcedReleaseKeepsTheLimit", func(s *suite) {
		s.acquire(some("a", 1))
		s.acquire(some("b", 2))
		s.force("n", lock.Semaphore)
		s.wantOut(0)
		s.acquire(some("c", 3))
		s.force("n", lock.Semaphore)
		s.acquire(some("a", 1))
		s.wantOut(1)
	}},
	{"SomePermitsComeBackAndTheOthersStay", func(s *suite) {
		s.acquire(some("a", 3))
		r := back(some("a", 3), 0)
		for _, row := range []struct{ keep, left uint32 }{{2, 2}, {2, 2}, {1, 1}, {2, 1}, {7, 1}} { // repeated, and late
			r.Keep = row.keep
			if res := s.release(r); res.Left != row.left {
				s.Errorf("keeping %d: got %d left, want %d", row.keep, res.Left, row.left)
			}
			s.wantOut(row.left)
		}
		r.Permits = 0 // not known
		r.Keep = 1
		if res := s.release(r); res.Left != 1 {
			s.Errorf("got %d left, want 1", res.Left)
		}
		s.must(s.renew(on(some("a", 1), 0)))
		r.Permits, r.Keep = 3, 0
		s.release(r)
		s.wantOut(0)
		r.Keep = 1
		s.notHeld(r)
	}},
	{"ALimitIsSetWithoutAPermit", func(s *suite) {
		for i, row := range []struct{ limit, previous uint32 }{{5, 0}, {5, 5}, {3, 5}, {3, 3}} {
			previous, err := s.Store.SetLimit(s.Context(), "n", row.limit)
			if s.must(err); previous != row.previous {
				s.Errorf("%d: got %d before, want %d", i, previous, row.previous)
			}
			if st := s.look("n"); st.Kind != lock.Semaphore || st.Limit != row.limit || st.Held {
				s.Errorf("got %+v, want a semaphore of %d", st, row.limit)
			}
		}
		s.acquire(some("a", 3))
		s.refused(some("b", 1))
	}},
	{"ALimitOfWhichNothingIsOutIsRemoved", func(s *suite) {
		removed := func(want uint32) {
			s.Helper()
			if previous, err := s.Store.RemoveLimit(s.Context(), "n"); err != nil || previous != want {
				s.Errorf("got %d, %v, want %d", previous, err, want)
			}
		}
		removed(0)
		s.must(errOf(s.Store.SetLimit(s.Context(), "n", 5)))
		s.wantErr(errOf(await(s.Context(), s.Store.StartAcquire, claim("n", "a"))), lock.ErrKindMismatch)
		removed(5)
		removed(0)
		f := s.acquire(claim("n", "a")).Fence
		s.wantErr(errOf(s.Store.RemoveLimit(s.Context(), "n")), lock.ErrKindMismatch)
		s.release(back(claim("n", "a"), f))

		s.acquire(some("a", 2))
		s.acquire(some("b", 1))
		for _, o := range []lock.Owner{"a", "b"} {
			_, err := s.Store.RemoveLimit(s.Context(), "n")
			if held, ok := errors.AsType[*lock.HeldError](err); !ok {
				s.Errorf("got %v while permits are out", err)
			} else {
				s.wantTTL(held.RetryAfter, ttl)
			}
			s.expireHold("n", o)
		}
		removed(3)
		if st := s.look("n"); st.Kind != 0 || st.Limit != 0 {
			s.Errorf("got %+v, want nothing", st)
		}
	}},
	{"WhatIsASemaphoreNeedsNoAdoption", func(s *suite) {
		s.wantLimit(s.Store.AdoptLimit(s.Context(), "n", 3), 0)
		s.acquire(some("a", 1))
		s.must(s.Store.AdoptLimit(s.Context(), "n", 3))
		s.wantLimit(s.Store.AdoptLimit(s.Context(), "n", 4), 3)
		s.wantOut(1)
		s.must(s.Hooks.Occupy("m"))
		s.wantErr(s.Store.AdoptLimit(s.Context(), "m", 3), lock.ErrKindMismatch)
	}},
	{"ASmallerLimitWaitsForWhatIsOut", func(s *suite) {
		f := s.acquire(some("a", 2)).Fence
		s.acquire(some("b", 1))
		s.must(errOf(s.Store.SetLimit(s.Context(), "n", 1)))
		if st := s.look("n"); st.Limit != 1 || st.Holders != 3 {
			s.Errorf("got %+v, want 3 of 1 to be out", st)
		}
		s.must(s.renew(on(some("a", 2), f)))
		s.acquire(some("a", 2)) // repeated, although it is more than the limit by now, and another one was claimed
		next := some("c", 1)
		next.Limit = 0
		s.refused(next)
		s.release(back(some("b", 1), 0))
		s.refused(next)
		s.release(back(some("a", 2), 0))
		s.acquire(next)
		next.Owner = Full("d")
		s.refused(next)
	}},
	{"MorePermitsAreHeard", func(s *suite) {
		e, _ := s.listenTo("n", lock.Semaphore)
		s.acquire(some("a", 3))
		for i, limit := range []uint32{4, 4, 2, 3, 5} { // the first and the last make room
			s.must(errOf(s.Store.SetLimit(s.Context(), "n", limit)))
			if i == 0 {
				e.awaitReleases(1)
			}
		}
		e.awaitReleases(2)
	}},
	{"OnlyASemaphoreHasALimit", func(s *suite) {
		s.acquire(claim("n", "a"))
		s.wantErr(errOf(s.Store.SetLimit(s.Context(), "n", 3)), lock.ErrKindMismatch)
		s.wantState(heldAs(claim("n", "a")))
		s.must(s.Hooks.Occupy("m"))
		s.wantErr(errOf(s.Store.SetLimit(s.Context(), "m", 3)), lock.ErrKindMismatch)
		s.wantErr(errOf(s.Store.SetLimit(s.ended(), "n", 3)), lock.ErrUnavailable)
	}},
	{"WhatComesBackIsHeard", func(s *suite) {
		e, _ := s.listenTo("n", lock.Semaphore)
		s.acquire(some("a", 1))
		s.acquire(some("b", 2))
		if res := s.release(back(some("a", 1), 0)); res.Listeners < 1 {
			s.Errorf("got %d listeners, want some", res.Listeners)
		}
		e.awaitReleases(1)
		s.expireHold("n", "b")
		s.acquire(some("a", 1))
		e.awaitReleases(2)
		s.force("n", lock.Semaphore)
		e.awaitReleases(3)
	}},
}
