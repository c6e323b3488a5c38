package storetest

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

func reads(o lock.Owner) lock.Claim { return of(lock.Read, "n", o) }

func writes(o lock.Owner) lock.Claim { return of(lock.Write, "n", o) }

// wishes is a write claim that keeps new readers away for the usual time.
func wishes(o lock.Owner) lock.Claim {
	c := writes(o)
	c.Place = ttl
	return c
}

// readsToo is a read claim by the holder of a write hold.
func readsToo(o, writer lock.Owner) lock.Claim {
	c := reads(o)
	c.WriteOwner = Full(writer)
	return c
}

// wantReaders checks how many read "n", and that nobody writes.
func (s *suite) wantReaders(n uint32, left time.Duration) {
	s.Helper()
	st := s.look("n")
	s.wantTTL(st.TTL, left)
	if st.Kind != lock.Read || !st.Held || st.Holders != n || st.Owner == "" || st.Count == 0 {
		s.Errorf("got %+v, want %d readers", st, n)
	}
}

var readContract = []contract{
	{"ReadersReadTogether", func(s *suite) {
		long := reads("a")
		long.TTL = 2 * ttl
		s.acquire(long)
		s.acquire(reads("b"))
		s.wantReaders(2, 2*ttl)
		s.wantTTL(s.refused(writes("w")).RetryAfter, 2*ttl)
		s.release(back(long, 0))
		s.wantReaders(1, ttl)
		s.wantTTL(s.refused(writes("w")).RetryAfter, ttl)
		s.release(back(reads("b"), 0))
		s.wantFree("n")
		s.acquire(writes("w"))
	}},
	{"EachReaderHasItsOwnFence", func(s *suite) {
		a, b := s.acquire(reads("a")).Fence, s.acquire(reads("b")).Fence
		if b <= a {
			s.Errorf("got fence %d after %d", b, a)
		}
		s.wantFence(s.acquire(reads("a")).Fence, a)
		if !s.AnyFence {
			s.wantErr(errOf(await(s.Context(), s.Store.StartRelease, back(reads("a"), b))), lock.ErrStale)
		}
		s.wantGone(s.renew(on(reads("a"), b)), lock.LostForced)
		s.must(s.renew(on(reads("a"), a)))
		s.must(s.renew(on(reads("a"), a-1)))
		s.must(s.renew(on(reads("b"), b)))
		s.release(back(reads("a"), a))
		s.release(back(reads("b"), b))
	}},
	{"AReaderThatEndedIsNotThere", func(s *suite) {
		f := s.acquire(reads("a")).Fence
		s.acquire(reads("b"))
		s.expireHold("n", "a")
		s.wantReaders(1, ttl)
		s.notHeld(back(reads("a"), 0))
		s.wantGone(s.renew(on(reads("a"), f)), lock.LostForced)
		if later := s.acquire(reads("a")).Fence; later <= f { // a new hold
			s.Errorf("got fence %d after %d", later, f)
		}
		s.wantReaders(2, ttl)
	}},
	{"ReadersThatEndedDoNotHoldBackAWriter", func(s *suite) {
		s.acquire(reads("a"))
		s.acquire(reads("b"))
		s.expireHold("n", "a")
		s.refusedBy("b", 0, writes("w"))
		s.expireHold("n", "b")
		s.wantFree("n")
		s.acquire(writes("w"))
		s.wantState(heldAs(writes("w")))
		s.notHeld(back(reads("a"), 0))
	}},
	{"ReadersThatEndedAreForgottenWithTheLastOne", func(s *suite) {
		e, _ := s.listenTo("n", lock.Read)
		long := reads("a")
		long.TTL = 10 * ttl
		s.acquire(long)
		s.acquire(reads("b"))
		s.acquire(reads("c"))
		s.expireHold("n", "a")
		s.release(back(reads("b"), 0))
		s.wantReaders(1, ttl)
		s.release(back(reads("c"), 0))
		e.awaitReleases(1)
		s.wantState(lock.State{Name: "n"})
	}},
	{"AnEarlierReadLendsNoTime", func(s *suite) {
		long := reads("a")
		long.TTL = 10 * ttl
		s.acquire(long)
		s.acquire(reads("b"))
		s.expireHold("n", "a")
		s.acquire(reads("a"))
		s.release(back(reads("b"), 0))
		s.wantReaders(1, ttl)
	}},
	{"OnlyTheLastReleaseIsHeard", func(s *suite) {
		e, _ := s.listenTo("n", lock.Read)
		w, _ := s.listenTo("n", lock.Write)
		s.acquire(reads("a"))
		s.acquire(reads("b"))
		s.release(back(reads("a"), 0))
		if res := s.release(back(reads("b"), 0)); res.Listeners < 1 {
			s.Errorf("got %d listeners, want some", res.Listeners)
		}
		e.awaitReleases(1)
		w.awaitReleases(1)
	}},
	{"AForcedReleaseEndsAllReads", func(s *suite) {
		a, b := s.acquire(reads("a")).Fence, s.acquire(reads("b")).Fence
		if s.force("n", lock.Write) {
			s.Error("it says that somebody wrote")
		}
		s.wantReaders(2, ttl)
		s.force("n", lock.Read)
		s.wantGone(s.renew(on(reads("a"), a)), lock.LostForced)
		s.acquire(reads("c"))
		s.notHeld(back(reads("b"), b))
		s.wantReaders(1, ttl)
	}},
	{"AReaderIsNoWriter", func(s *suite) {
		f := s.acquire(reads("a")).Fence
		s.refused(writes("a"))
		s.notHeld(back(writes("a"), f))
		s.wantGone(s.renew(on(writes("a"), f)), lock.LostForced)
		s.wantReaders(1, ttl)
	}},
}

var writeContract = []contract{
	{"AWriterExcludesAll", func(s *suite) {
		s.acquire(writes("w"))
		for _, c := range []lock.Claim{reads("a"), writes("x"), reads("w"), readsToo("a", "x"), readsToo("a", "a")} {
			s.refusedBy("w", 0, c)
		}
		s.release(back(writes("w"), 0))
		s.acquire(reads("a"))
	}},
	{"AWriterThatWaitsKeepsNewReadersAway", func(s *suite) {
		f := s.acquire(reads("a")).Fence
		s.refused(wishes("w"))
		s.wantTTL(s.refusedBy("w", 0, reads("b")).RetryAfter, ttl)
		if again := s.acquire(reads("a")).Fence; again != f { // who reads already goes on
			s.Errorf("got fence %d, want %d again", again, f)
		}
		s.must(s.renew(on(reads("a"), f)))
		s.release(back(reads("a"), f))
		s.wantFree("n")
		s.refusedBy("w", 0, reads("b")) // also while nobody holds it
		s.acquire(wishes("w"))
		s.release(back(writes("w"), 0))
		s.acquire(reads("b"))
	}},
	{"WhenToRetryIsTheEarlierOfLeaseAndPlace", func(s *suite) {
		long := reads("a")
		long.TTL = 10 * ttl
		s.acquire(long)
		s.refused(wishes("w"))
		s.wantTTL(s.refused(reads("b")).RetryAfter, ttl)
		s.release(back(long, 0))
		s.wantTTL(s.refused(reads("b")).RetryAfter, ttl)
		s.leave(lock.Write, "w")
		s.acquire(reads("a"))
		c := wishes("w")
		c.Place = 10 * ttl
		s.refused(c)
		s.wantTTL(s.refused(reads("b")).RetryAfter, ttl)
	}},
	{"WithoutAPlaceReadersPassAWriter", func(s *suite) {
		s.acquire(reads("a"))
		s.refused(writes("w"))
		s.acquire(reads("b"))
	}},
	{"WhenThePlaceEndsReadersComeIn", func(s *suite) {
		s.acquire(reads("a"))
		s.refused(wishes("w"))
		s.expirePlace("n", "w")
		s.acquire(reads("b"))
		c := wishes("w")
		c.Place = 20 * time.Millisecond
		s.refused(c)
		s.untilGranted(reads("c"))
	}},
	{"WhenTheWriterLeavesReadersComeInAndHearOfIt", func(s *suite) {
		e, _ := s.listenTo("n", lock.Read)
		s.acquire(reads("a"))
		s.refused(wishes("w"))
		s.leave(lock.Write, "x", "y")
		s.refused(reads("b"))
		s.leave(lock.Write, "x", "w")
		e.awaitReleases(1)
		s.acquire(reads("b"))
		s.leave(lock.Write, "w")
		s.refused(wishes("w"))
		s.notHeld(back(writes("w"), 0)) // gives the place up as well
		e.awaitReleases(2)
		s.acquire(reads("c"))
	}},
	{"OneWriterKeepsThePlaceOfAll", func(s *suite) {
		s.acquire(reads("a"))
		c := wishes("w")
		c.Place = 20 * time.Second
		s.refused(c)
		s.refused(wishes("x"))
		s.wantTTL(s.refusedBy("w", 0, reads("b")).RetryAfter, ttl)
		s.leave(lock.Write, "x")
		s.refused(reads("b"))
		s.release(back(reads("a"), 0))
		s.acquire(wishes("x")) // it keeps readers away, not writers
		s.release(back(writes("x"), 0))
		s.acquire(reads("b"))
	}},
	{"AWriterMayReadBeside", func(s *suite) {
		f := s.acquire(writes("w")).Fence
		read := s.acquire(readsToo("r", "w")).Fence
		if read <= f {
			s.Errorf("got fence %d after %d", read, f)
		}
		want := heldAs(writes("w"))
		want.Holders = 1
		s.wantState(want)
		s.wantFence(s.acquire(writes("w")).Fence, f)
		s.wantFence(s.acquire(readsToo("r", "w")).Fence, read)
		s.must(s.renew(on(writes("w"), f)))
		s.must(s.renew(on(reads("r"), read)))
		s.release(back(reads("r"), read))
		s.wantState(heldAs(writes("w")))
	}},
	{"AReadBesideDoesNotChangeTheLeaseOfTheWriterWhenItEnds", func(s *suite) {
		c := writes("w")
		c.TTL = 10 * ttl
		s.acquire(c)
		s.acquire(readsToo("r", "w"))
		s.acquire(readsToo("q", "w"))
		s.release(back(reads("r"), 0))
		s.wantTTL(s.look("n").TTL, 10*ttl)
		s.expireHold("n", "q")
		s.wantState(heldAs(c))
	}},
	{"WhoReadsBesideGoesOnWithoutTheWriter", func(s *suite) {
		e, _ := s.listenTo("n", lock.Read)
		c := writes("w")
		c.TTL = 10 * ttl
		f := s.acquire(c).Fence
		read := s.acquire(readsToo("r", "w")).Fence
		if res := s.release(over(back(writes("w"), f), "x")); res.HandedOver != 0 || res.Listeners < 1 {
			s.Errorf("got %+v, want it to be told and not handed over", res)
		}
		e.awaitReleases(1)
		s.wantReaders(1, ttl)
		s.acquire(reads("a"))
		s.refused(writes("x"))
		s.must(s.renew(on(reads("r"), read)))
		s.release(back(reads("r"), read))
		s.release(back(reads("a"), 0))
		s.acquire(writes("x"))
	}},
	{"WhoReadBesideAndEndedIsNotLeft", func(s *suite) {
		e, _ := s.listenTo("n", lock.Write)
		s.acquire(writes("w"))
		s.acquire(readsToo("r", "w"))
		s.expireHold("n", "r")
		s.release(back(writes("w"), 0))
		e.awaitReleases(1)
		s.wantState(lock.State{Name: "n"})
		s.acquire(writes("x"))
		s.acquire(readsToo("q", "x"))
		s.expireHold("n", "q")
		if res := s.release(over(back(writes("x"), 0), "y")); res.HandedOver == 0 {
			s.Errorf("got %+v, want it to be handed over", res)
		}
	}},
	{"AHandoffEndsThePlace", func(s *suite) {
		f := s.acquire(writes("w")).Fence
		s.refused(wishes("x"))
		s.release(back(writes("x"), s.release(over(back(writes("w"), f), "x")).HandedOver))
		s.acquire(reads("a"))
	}},
	{"AnotherFenceIsStaleButAReadBesideItIsNoOther", func(s *suite) {
		f := s.acquire(writes("w")).Fence
		s.acquire(readsToo("r", "w"))
		s.must(s.renew(on(writes("w"), f)))
		s.must(s.renew(on(writes("w"), f-1)))
		s.wantErr(s.renew(on(writes("w"), f+1)), lock.ErrNotHeld)
		if !s.AnyFence {
			s.wantErr(errOf(await(s.Context(), s.Store.StartRelease, back(writes("w"), f-1))), lock.ErrStale)
		}
		s.release(back(writes("w"), f))
		s.release(back(readsToo("r", "w"), 0))
		s.wantFree("n")
	}},
	{"AForcedReleaseEndsTheWriteAndTheReadsBesideIt", func(s *suite) {
		f := s.acquire(writes("w")).Fence
		if s.force("n", lock.Read) {
			s.Error("it says that somebody read")
		}
		s.wantState(heldAs(writes("w")))
		s.acquire(readsToo("r", "w"))
		s.force("n", lock.Write)
		s.wantFree("n")
		s.wantGone(s.renew(on(writes("w"), f)), lock.LostForced)
		s.acquire(writes("x"))
		s.notHeld(back(reads("r"), 0))
	}},
}
