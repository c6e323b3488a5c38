package storetest

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// common is what is true of a kind as of all others.
func common(kind lock.Kind) []contract {
	var all []contract
	for _, c := range slices.Concat(commonContract, watchContract) {
		all = append(all, contract{c.name, func(s *suite) { c.test(s, kind) }})
	}
	return all
}

var commonContract = []kindContract{
	{"AFreeNameIsGranted", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		g := s.acquire(c)
		if g.Fence == 0 || g.TTL < ttl || g.TTL > ttl+time.Second {
			s.Errorf("got fence %d and TTL %v, want a fence and %v", g.Fence, g.TTL, ttl)
		}
		s.wantState(heldAs(c))
		s.wantFence(s.look("n").Fence, g.Fence)
	}},
	{"AHeldNameIsRefused", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		s.acquire(c)
		held := s.refused(against(kind, "n", "other"))
		s.wantTTL(held.RetryAfter, ttl)
		if want := heldAs(c).Owner; held.HeldBy != want || held.Ahead != 0 || held.Name != "" {
			s.Errorf("got %+v, want it held by %q", held, want)
		}
		s.wantState(heldAs(c))
	}},
	{"RepeatedItIsTheSameHold", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		last := s.acquire(c).Fence
		for range 3 {
			f := s.acquire(c).Fence
			if kind == lock.Semaphore && f <= last || kind != lock.Semaphore && f != last {
				s.Errorf("got fence %d after %d", f, last)
			}
			last = f
			s.wantState(heldAs(c))
		}
		s.release(back(c, last)) // one is enough
		s.wantFree("n")
		s.notHeld(back(c, last))
	}},
	{"RepeatedItProlongsAndNeverShortens", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		s.acquire(c)
		c.TTL = time.Second
		s.wantTTL(s.acquire(c).TTL, ttl)
		s.wantTTL(s.look("n").TTL, ttl)
		c.TTL = 2 * ttl
		s.wantTTL(s.acquire(c).TTL, 2*ttl)
		s.wantTTL(s.look("n").TTL, 2*ttl)
	}},
	{"NamesThatDifferByBracesAreIndependent", bracesIndependent},
	{"AfterTheLeaseEndedTheNameIsFree", func(s *suite, kind lock.Kind) {
		s.acquire(of(kind, "n", "o"))
		s.must(s.Hooks.Expire("n"))
		s.wantFree("n")
		s.acquire(against(kind, "n", "other"))
	}},
	{"ALeaseEndsByItself", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		c.TTL = 500 * time.Millisecond
		s.acquire(c)
		everywhere := time.Now().Add(c.TTL) // a majority is free earlier than the last of several masters
		s.until("the lease ends", func() bool { return !s.look("n").Held && time.Now().After(everywhere) })
		s.notHeld(back(c, 0))
		s.acquire(against(kind, "n", "other"))
	}},
	{"EachLaterGrantHasAGreaterFence", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		var last lock.Fence
		greater := func(f lock.Fence) {
			s.Helper()
			if f <= last {
				s.Errorf("got fence %d after %d", f, last)
			}
			last = f
		}
		for _, end := range []func(){
			func() { s.must(s.Hooks.Expire("n")) },
			func() { s.force("n", kind) },
			func() {
				holder := c
				if !kind.Shared() {
					greater(s.release(over(back(c, last), "successor")).HandedOver)
					holder = of(kind, "n", "successor")
				}
				s.release(back(holder, last))
			},
			func() { s.must(s.Hooks.Lose()) },
			func() {},
		} {
			greater(s.acquire(c).Fence)
			end()
		}
	}},
	{"AReleaseFreesTheName", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		f := s.acquire(c).Fence
		if res := s.release(back(c, f)); res != (lock.Returned{}) {
			s.Errorf("got %+v, want nothing", res)
		}
		s.wantFree("n")
		s.notHeld(back(c, f))
		s.wantFence(s.look("n").Fence, f)
		s.acquire(against(kind, "n", "other"))
	}},
	{"AReleaseExecutedLateTouchesNobody", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		old := s.acquire(c).Fence
		s.must(s.Hooks.Expire("n"))
		s.notHeld(back(c, old))
		other := against(kind, "n", "other")
		s.acquire(other)
		s.notHeld(back(c, old))
		s.wantState(heldAs(other))
		s.release(back(other, 0))
		s.acquire(c)
		_, err := await(s.Context(), s.Store.StartRelease, back(c, old))
		if kind == lock.Semaphore || s.AnyFence { // its owner alone decides
			s.must(err)
			s.wantFree("n")
			return
		}
		s.wantErr(err, lock.ErrStale)
		s.wantState(heldAs(c))
	}},
	{"AHandoffGivesTheSuccessorItsOwnLease", func(s *suite, kind lock.Kind) {
		if kind.Shared() {
			return
		}
		c := of(kind, "n", "o")
		c.TTL = 10 * ttl
		f := s.acquire(c).Fence
		s.acquire(c)
		r := over(back(c, f), "successor")
		next := s.release(r).HandedOver
		successor := of(kind, "n", "successor")
		for range 2 { // repeated
			if got := s.release(r); next <= f || got.HandedOver != next {
				s.Errorf("got %+v after fence %d, want fence %d", got, f, next)
			}
			s.wantState(heldAs(successor)) // its lease is set, not prolonged
		}
		s.must(s.renew(on(successor, next)))
		s.refused(of(kind, "n", "o"))
		s.release(back(successor, next))
		s.notHeld(r)
		s.wantFree("n")
	}},
	{"OnlyTheHolderHandsOver", func(s *suite, kind lock.Kind) {
		if kind.Shared() {
			return
		}
		c := of(kind, "n", "o")
		s.notHeld(over(back(c, 0), "successor"))
		old := s.acquire(c).Fence
		s.must(s.Hooks.Expire("n"))
		s.acquire(c)
		if !s.AnyFence {
			s.wantErr(errOf(await(s.Context(), s.Store.StartRelease, over(back(c, old), "successor"))), lock.ErrStale)
		}
		s.notHeld(over(back(of(kind, "n", "other"), 0), "successor"))
		s.wantState(heldAs(c))
	}},
	{"WhoHasItAlreadyHasItForAtLeastThatLong", func(s *suite, kind lock.Kind) {
		if kind.Shared() {
			return
		}
		c := of(kind, "n", "successor")
		f := s.acquire(c).Fence
		r := over(back(of(kind, "n", "o"), 1), "successor") // it had the name before
		for _, r.Next.TTL = range []time.Duration{10 * ttl, 5 * ttl} {
			s.wantFence(s.release(r).HandedOver, f)
			s.wantTTL(s.look("n").TTL, 10*ttl)
		}
		s.must(s.renew(on(c, f)))
		s.release(back(c, f))
	}},
	{"ARenewalProlongsAndNeverShortens", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		c.TTL = 10 * time.Second
		f := s.acquire(c).Fence
		r := on(c, f)
		r.TTL = 0
		s.must(s.renew(r))
		s.wantTTL(s.look("n").TTL, 10*time.Second)
		s.must(s.renew(on(c, f)))
		s.wantTTL(s.look("n").TTL, ttl)
		r.TTL = time.Second
		s.must(s.renew(r))
		s.wantTTL(s.look("n").TTL, ttl)
		left, err := await(s.Context(), s.Store.StartExtend, r)
		s.must(err)
		s.wantTTL(left, ttl)
		s.must(s.renew(on(c, 0)))
	}},
	{"ARenewalBringsNothingBack", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		f := s.acquire(c).Fence
		s.must(s.Hooks.Expire("n"))
		verify := on(c, f)
		verify.TTL = 0
		s.wantGone(s.renew(verify), lock.LostForced)
		s.wantGone(s.renew(on(c, f)), lock.LostForced)
		s.wantFree("n")
		if kind != lock.Semaphore { // of permits the owner alone decides
			later := s.acquire(c).Fence
			s.wantGone(s.renew(on(c, later+10)), lock.LostData)
			s.must(s.renew(on(c, f))) // it may have been raised meanwhile
			s.release(back(c, later))
		}
		other := against(kind, "n", "other")
		other.TTL = 20 * time.Second
		s.acquire(other)
		s.wantGone(s.renew(on(c, f)), lock.LostForced)
		s.wantState(heldAs(other))
		s.must(s.Hooks.Lose())
		s.wantGone(s.renew(on(c, f)), lock.LostData)
	}},
	{"WhyAHoldIsGoneIsToldWhoeverTookTheNameSince", func(s *suite, kind lock.Kind) {
		for i := range 40 {
			c := of(kind, "n", "o")
			f := s.acquire(c).Fence
			why := lock.LostData
			if i%2 == 0 {
				why = lock.LostForced
				s.force("n", kind)
			} else {
				s.must(s.Hooks.Lose())
			}
			other := of(kind, "n", "other")
			g := s.acquire(other).Fence
			s.wantGone(s.renew(on(c, f)), why)
			s.wantGone(s.renew(on(c, f)), why)
			s.release(back(other, g))
		}
	}},
	{"AForcedReleaseFreesTheName", func(s *suite, kind lock.Kind) {
		if s.force("n", kind) {
			s.Error("it says that a name was held that was never used")
		}
		c := of(kind, "n", "o")
		f := s.acquire(c).Fence
		if !s.force("n", kind) {
			s.Error("it says that the name was not held")
		}
		s.wantFree("n")
		s.notHeld(back(c, f))
		s.wantGone(s.renew(on(c, f)), lock.LostForced)
		if s.force("n", kind) {
			s.Error("it says that a free name was held")
		}
		s.acquire(against(kind, "n", "other"))
	}},
	{"WhatIsHeldIsListed", func(s *suite, kind lock.Kind) {
		for _, name := range []string{"a", "b", "{c}"} {
			s.acquire(of(kind, name, "o"))
		}
		s.release(back(of(kind, "b", "o"), 0))
		s.wantList("", 10, []string{"a", "{c}"})
	}},
	{"ANameInOtherUseIsAMismatch", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		s.must(s.Hooks.Occupy("n"))
		s.wantErr(errOf(await(s.Context(), s.Store.StartAcquire, c)), lock.ErrKindMismatch)
		s.wantErr(errOf(s.Store.AcquireAll(s.Context(), []lock.Claim{c})), lock.ErrKindMismatch)
		s.wantErr(errOf(await(s.Context(), s.Store.StartRelease, back(c, 0))), lock.ErrKindMismatch)
		s.wantErr(errOf(s.Store.ForceRelease(s.Context(), "n", kind)), lock.ErrKindMismatch)
		s.wantErr(errOf(s.Store.Look(s.Context(), "n")), lock.ErrKindMismatch)
		s.wantErr(s.renew(on(c, 1)), lock.ErrNotHeld) // whatever else is there, the hold is not
	}},
	{"WithAnEndedContextNothingIsBegun", func(s *suite, kind lock.Kind) {
		c := of(kind, "n", "o")
		s.wantErr(errOf(await(s.ended(), s.Store.StartAcquire, c)), lock.ErrUnavailable)
		s.wantErr(errOf(s.Store.AcquireAll(s.ended(), []lock.Claim{c})), lock.ErrUnavailable)
		s.wantFree("n")
		f := s.acquire(c).Fence
		s.wantErr(errOf(await(s.ended(), s.Store.StartRelease, back(c, f))), lock.ErrUnavailable)
		s.wantErr(errOf(s.Store.ForceRelease(s.ended(), "n", kind)), lock.ErrUnavailable)
		s.Store.Renew(s.ended(), []lock.Renewal{on(c, f)}, func(_ int, err error) { s.wantErr(err, lock.ErrUnavailable) })
		if kind.Placed() {
			s.wantErr(s.Store.Leave(s.ended(), "n", kind, fulls("o")), lock.ErrUnavailable)
		}
		s.wantState(heldAs(c))
	}},
	{"AForcedReleaseIsHeardByAll", func(s *suite, kind lock.Kind) {
		e, _ := s.listenTo("n", kind)
		all := newEar(s)
		s.Cleanup(s.Store.ListenForced(all.hearForced))
		deadline := time.Now().Add(within)
		for n := 1; ; n++ { // until it hears: there is no sign of when it begins to
			s.acquire(of(kind, "n", "o"))
			s.force("n", kind)
			if kind != lock.Fair { // of which only those who wait hear
				e.awaitReleases(n)
			}
			if all.hasForced("n", 100*time.Millisecond) {
				return
			}
			if time.Now().After(deadline) {
				s.Fatal("a forced release is not heard")
			}
		}
	}},
}

// bracesIndependent: helper keys of names that differ by braces only could be the same.
func bracesIndependent(s *suite, kind lock.Kind) {
	names := []string{"n", "{n}", "{n}x", "x{n}", "{n}}"}
	for i, name := range names {
		c := of(kind, name, "o")
		if kind == lock.Semaphore {
			c.Limit = uint32(2 + i) //nolint:gosec // one of five
		}
		f := s.acquire(c).Fence
		s.must(s.renew(on(c, f)))
		if kind.Placed() {
			w := of(kind, name, "waiter")
			w.Place = ttl
			s.refusedBy("o", 0, w)
		}
	}
	for i, name := range names {
		want := heldAs(of(kind, name, "o"))
		switch kind {
		case lock.Semaphore:
			want.Limit = uint32(2 + i) //nolint:gosec // one of five
		case lock.Fair:
			want.Kind, want.Queued = lock.Fair, 1
		default:
		}
		s.wantState(want)
	}
	if kind.Placed() {
		s.must(s.Store.Leave(s.Context(), "n", kind, fulls("waiter")))
	}
	s.release(back(of(kind, "n", "o"), 0))
	c := of(kind, "{n}", "o")
	c.Limit = 0
	s.acquire(c)
	s.release(back(c, 0))
	s.wantFree("{n}")
}
