package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// waits is a fair claim that keeps a place for the usual time.
func waits(o lock.Owner) lock.Claim {
	c := of(lock.Fair, "n", o)
	c.Place = ttl
	return c
}

// held makes a fair hold of "n", behind which waiters wait in this order.
func (s *suite) held(waiters ...lock.Owner) lock.Fence {
	s.Helper()
	f := s.acquire(of(lock.Fair, "n", "o")).Fence
	for i, o := range waiters {
		s.refusedBy("o", i, waits(o))
	}
	return f
}

// letGo releases a fair hold of "n" and checks whose turn it is.
func (s *suite) letGo(o, turn lock.Owner) {
	s.Helper()
	if res := s.release(back(of(lock.Fair, "n", o), 0)); res.Turn != Full(turn) {
		s.Errorf("got turn of %q, want %q", res.Turn, turn)
	}
}

func (s *suite) wantQueue(want ...lock.Owner) {
	s.Helper()
	got, err := s.Store.Queue(s.Context(), "n", 100)
	s.must(err)
	if !slices.Equal(got, fulls(want...)) {
		s.Errorf("the queue is %q, want %q", got, want)
	}
	if n := s.look("n").Queued; int(n) != len(want) {
		s.Errorf("%d are queued, want %d", n, len(want))
	}
}

// enlist enlists owners, and wants these answers.
func (s *suite) enlist(owners []lock.Owner, want ...int) {
	s.Helper()
	got, err := s.Store.Enlist(s.Context(), "n", fulls(owners...), ttl)
	s.must(err)
	if !slices.Equal(got, want) {
		s.Errorf("enlisting %q got %d, want %d", owners, got, want)
	}
}

func (s *suite) leave(kind lock.Kind, owners ...lock.Owner) {
	s.Helper()
	s.must(s.Store.Leave(s.Context(), "n", kind, fulls(owners...)))
}

// succeed has to succeed from, and wants ahead waiters before it.
func (s *suite) succeed(ahead int, to lock.Owner, from ...lock.Owner) {
	s.Helper()
	got, err := s.Store.Succeed(s.Context(), "n", fulls(from...), Full(to), ttl)
	if s.must(err); got != ahead {
		s.Errorf("%d are before %q, want %d", got, to, ahead)
	}
}

var fairContract = []contract{
	{"AnotherOwnerSucceedsOneThatWaits", func(s *suite) {
		s.held("a", "b", "c")
		s.succeed(1, "new b", "b")
		s.succeed(1, "new b", "b")                  // its answer was lost
		s.succeed(lock.PlaceUnknown, "other", "x")  // nobody
		s.succeed(lock.PlaceUnknown, "late b", "b") // late
		s.wantQueue("a", "new b", "c")
		s.refusedBy("o", 1, waits("new b"))
		s.leave(lock.Fair, "b") // late: it has no place any more
		s.letGo("o", "a")
		s.succeed(0, "new a", "a")
		s.acquire(waits("new a"))
		s.letGo("new a", "new b")
		s.acquire(waits("new b"))
		s.wantQueue("c")
	}},
	{"AnotherOwnerSucceedsTheFirstOfSome", func(s *suite) {
		s.held("a", "b1", "c", "b2", "d", "b3")
		s.succeed(1, "new", "b3", "x", "b1", "b2")
		s.wantQueue("a", "new", "c", "d")
		s.enlist([]lock.Owner{"b1"}, 4)                 // late
		s.succeed(1, "new", "b3", "x", "b1", "b2")      // its answer was lost
		s.succeed(lock.PlaceUnknown, "late", "x", "b2") // of another one that has had the place
		s.wantQueue("a", "new", "c", "d", "b1")         // until its time has passed
		s.succeed(1, "newer", "b1", "b2", "b3", "new")
		s.wantQueue("a", "newer", "c", "d")
		s.letGo("o", "a")
		s.acquire(waits("a"))
		s.letGo("a", "newer")
		s.acquire(waits("newer"))
		s.letGo("newer", "c")
	}},
	{"AnotherOwnerSucceedsOneThatHolds", func(s *suite) {
		f := s.held("a")
		s.succeed(lock.PlaceUnknown, "p", "x", "o", "y")
		s.wantFence(s.acquire(of(lock.Fair, "n", "p")).Fence, f)
		_, err := await(s.Context(), s.Store.StartRelease, back(of(lock.Fair, "n", "o"), f)) // late
		s.wantErr(err, lock.ErrNotHeld)
		s.letGo("p", "a")
	}},
	{"AHoldReleasedWithItsPlaceIsBeforeAllOthers", func(s *suite) {
		f := s.held("a", "b")
		s.letGo("o", "a")
		g := s.acquire(waits("a"))
		r := back(of(lock.Fair, "n", "a"), g.Fence)
		r.Place = ttl
		stale := r
		stale.Fence = f
		s.wantErr(errOf(await(s.Context(), s.Store.StartRelease, stale)), lock.ErrStale)
		s.wantQueue("b")
		if res := s.release(r); res.Turn != Full("a") {
			s.Errorf("it is the turn of %q", res.Turn)
		}
		s.wantQueue("a", "b")
		s.refusedBy("a", 1, waits("b"))
		s.notHeld(r) // its answer was lost
		s.wantQueue("a", "b")
		s.succeed(0, "new a", "a")
		s.notHeld(r) // late
		s.wantQueue("new a", "b")
		s.acquire(waits("new a"))
		s.notHeld(r)
		s.letGo("new a", "b")
	}},
	{"NobodySucceedsInWhatIsNoLock", func(s *suite) {
		s.must(s.Hooks.Occupy("n"))
		s.wantErr(errOf(s.Store.Succeed(s.Context(), "n", fulls("a"), Full("b"), ttl)), lock.ErrKindMismatch)
		s.wantErr(errOf(s.Store.Succeed(s.ended(), "m", fulls("a"), Full("b"), ttl)), lock.ErrUnavailable)
	}},
	{"WaitersAreServedInTheirOrder", func(s *suite) {
		s.held("a", "b", "c")
		holder := lock.Owner("o")
		order := []lock.Owner{"a", "b", "c"}
		for i, next := range order {
			s.letGo(holder, next)
			for ahead, o := range order[i+1:] {
				s.wantTTL(s.refusedBy(next, ahead+1, waits(o)).RetryAfter, ttl)
			}
			s.acquire(waits(next))
			s.wantQueue(order[i+1:]...)
			holder = next
		}
		s.letGo("c", "")
	}},
	{"AClaimWithoutAPlaceIsRefusedWhileOthersWait", func(s *suite) {
		s.held("a")
		s.refusedBy("o", 1, of(lock.Fair, "n", "b"))
		s.letGo("o", "a")
		s.refusedBy("a", 1, of(lock.Fair, "n", "b"))
		s.wantQueue("a")
		s.wantFree("n")
		s.acquire(of(lock.Fair, "n", "a")) // its place counts, not that it asks for one
	}},
	{"AReleaseGivesThePlaceUpInAnyCase", func(s *suite) {
		s.held("a", "b")
		r := back(of(lock.Fair, "n", "a"), 0)
		s.notHeld(r)
		s.wantQueue("b")
		s.notHeld(r)
		s.letGo("o", "b")
		s.acquire(waits("b"))
	}},
	{"AHandoffIsToTheNextOnly", func(s *suite) {
		f := s.held("a", "b")
		r := over(back(of(lock.Fair, "n", "o"), f), "b")
		if res := s.release(r); res.HandedOver != 0 || res.Turn != Full("a") {
			s.Errorf("got %+v, want it freed for a", res)
		}
		s.wantFree("n")
		s.notHeld(r)
		r = over(back(of(lock.Fair, "n", "a"), s.acquire(waits("a")).Fence), "b")
		res := s.release(r)
		if res.HandedOver <= r.Fence || res.Turn != "" {
			s.Errorf("got %+v, want it handed over", res)
		}
		s.wantFence(s.release(r).HandedOver, res.HandedOver)
		s.wantQueue()
		s.wantState(heldAs(of(lock.Fair, "n", "b")))
		s.letGo("b", "")
	}},
	{"AHandoffPassesOverWhoHasNoPlaceAnyMore", func(s *suite) {
		f := s.held("a", "b")
		s.expirePlace("n", "a")
		r := over(back(of(lock.Fair, "n", "o"), f), "b")
		if res := s.release(r); res.HandedOver <= f {
			s.Errorf("got %+v, want it handed over", res)
		}
		s.wantQueue()
	}},
	{"AForcedReleaseKeepsTheQueue", func(s *suite) {
		s.held("a", "b")
		s.force("n", lock.Fair)
		s.wantQueue("a", "b")
		s.refused(waits("b"))
		s.acquire(waits("a"))
	}},
	{"TheQueueOutlivesTheLease", func(s *suite) {
		s.held("a", "b")
		s.must(s.Hooks.Expire("n"))
		s.refusedBy("a", 1, waits("b"))
		s.acquire(waits("a"))
	}},
	{"AnExclusiveClaimIgnoresTheQueue", func(s *suite) {
		s.held("a")
		s.letGo("o", "a")
		s.acquire(claim("n", "x"))
		s.refusedBy("x", 0, waits("a"))
	}},
	{"LookTellsOfTheQueue", func(s *suite) {
		s.held("a", "b")
		want := heldAs(of(lock.Fair, "n", "o"))
		want.Kind, want.Queued = lock.Fair, 2
		s.wantState(want)
		s.letGo("o", "a")
		s.wantState(lock.State{Name: "n", Kind: lock.Fair, Queued: 2})
	}},
	{"WhoHoldsItAlreadyDoesNotCareAboutTheQueue", func(s *suite) {
		f := s.held("a")
		s.wantFence(s.acquire(of(lock.Fair, "n", "o")).Fence, f)
		s.letGo("o", "a")
	}},
}

var fairPlaceContract = []contract{
	{"APlaceThatEndedIsPassedOver", func(s *suite) {
		s.held("a", "b", "c")
		s.expirePlace("n", "a")
		s.expirePlace("n", "b")
		s.letGo("o", "c")
		s.acquire(waits("c"))
		s.wantQueue()
		s.refusedBy("c", 0, waits("a")) // it begins anew
	}},
	{"APlaceThatEndedLetsAClaimIn", func(s *suite) {
		s.held("a", "b")
		s.letGo("o", "a")
		s.expirePlace("n", "a")
		s.acquire(waits("b"))
		s.wantQueue()
	}},
	{"APlaceEndsByItself", func(s *suite) {
		s.held()
		c := waits("a")
		c.Place = 50 * time.Millisecond
		s.refused(c)
		s.refused(waits("b"))
		s.release(back(of(lock.Fair, "n", "o"), 0)) // it may be over by now
		s.untilGranted(waits("b"))
	}},
	{"APlaceBehindThatEndedIsKeptIfItIsProlonged", func(s *suite) {
		s.held("a", "b", "c")
		s.expirePlace("n", "b")
		s.enlist([]lock.Owner{"b"}, lock.PlaceUnknown)
		s.wantQueue("a", "b", "c")
		s.expirePlace("n", "c")
		s.refusedBy("o", 2, waits("c"))
		s.leave(lock.Fair, "a")
		s.wantQueue("b", "c")
	}},
	{"EnlistingGivesPlacesInOrder", func(s *suite) {
		s.held()
		s.enlist([]lock.Owner{"a", "b"}, 0, 1)
		s.enlist([]lock.Owner{"c"}, 2)
		s.enlist([]lock.Owner{"c", "a", "o", "d", "d"}, lock.PlaceUnknown, lock.PlaceUnknown, lock.PlaceHolds, 3,
			lock.PlaceUnknown)
		s.wantQueue("a", "b", "c", "d")
		s.letGo("o", "a")
		s.refused(waits("b"))
		s.acquire(waits("a"))
	}},
	{"EnlistingForAFreeNameKeepsOthersOut", func(s *suite) {
		s.enlist([]lock.Owner{"a", "b"}, 0, 1)
		s.refused(of(lock.Fair, "n", "x"))
		s.acquire(waits("a"))
	}},
	{"EnlistingNobodyIsNoWork", func(s *suite) {
		s.enlist(nil)
		s.wantQueue()
	}},
	{"ManyAreEnlistedInOrder", func(s *suite) {
		s.held()
		var owners []lock.Owner
		var want []int
		for i := range 1300 {
			owners = append(owners, Full(lock.Owner(fmt.Sprint("w", i))))
			want = append(want, i)
		}
		s.enlist(owners, want...)
		read, err := s.Store.Queue(s.Context(), "n", 2000)
		if s.must(err); !slices.Equal(read, owners) {
			s.Errorf("got %d owners %.100q, want all in order", len(read), read)
		}
		s.leave(lock.Fair, owners[1:]...)
		s.wantQueue("w0")
	}},
	{"WhoLeavesIsNotWaitedFor", func(s *suite) {
		s.held("a", "b", "c")
		s.leave(lock.Fair, "b", "nobody", "a")
		s.wantQueue("c")
		s.leave(lock.Fair, "b", "a")
		s.leave(lock.Fair)
		s.letGo("o", "c")
		s.leave(lock.Fair, "c")
		s.acquire(of(lock.Fair, "n", "x"))
		s.leave(lock.Fair, "x") // it holds the name and has no place
		s.wantState(heldAs(of(lock.Fair, "n", "x")))
	}},
	{"SomeOfTheQueueAreRead", func(s *suite) {
		s.held("a", "b", "c")
		for size, want := range [][]lock.Owner{nil, fulls("a"), fulls("a", "b")} {
			got, err := s.Store.Queue(s.Context(), "n", size)
			if s.must(err); !slices.Equal(got, want) {
				s.Errorf("%d: got %q, want %q", size, got, want)
			}
		}
	}},
	{"ANameInOtherUseHasNoPlaces", func(s *suite) {
		s.must(s.Hooks.Occupy("n"))
		s.wantErr(errOf(s.Store.Enlist(s.Context(), "n", fulls("a"), ttl)), lock.ErrKindMismatch)
		s.must(errOf(s.Store.Enlist(s.Context(), "n", nil, ttl))) // nothing is asked, whatever the name is
		s.leave(lock.Fair, "a")
		s.wantErr(errOf(s.Store.Enlist(s.ended(), "m", fulls("a"), ttl)), lock.ErrUnavailable)
		s.wantErr(errOf(s.Store.Queue(s.ended(), "m", 1)), lock.ErrUnavailable)
	}},
}

var fairListenContract = []contract{
	{"AReleaseIsForTheNextAndAGrantTellsTheOneAfter", func(s *suite) {
		e, _ := s.listenTo("n", lock.Fair)
		watcher := s.watch("n")
		s.held("a", "b")
		s.letGo("o", "a")
		e.awaitTold(yours("a"))
		s.acquire(waits("a"))
		e.awaitTold(yours("a"), soon("b"))
		s.letGo("a", "b")
		e.awaitTold(yours("a"), soon("b"), yours("b"))
		s.acquire(waits("b"))
		s.letGo("b", "") // heard by those alone who listen to all
		watcher.await("ends", func() bool { return watcher.heard[lock.NoticeEnded] == 3 })
		e.awaitTold(yours("a"), soon("b"), yours("b"))
	}},
	{"AHandoffTellsTheOneAfter", func(s *suite) {
		e, _ := s.listenTo("n", lock.Fair)
		r := over(back(of(lock.Fair, "n", "o"), s.held("a", "b")), "a")
		s.release(r)
		e.awaitTold(soon("b"))
		s.release(r) // repeated
		s.letGo("a", "b")
		e.awaitTold(soon("b"), yours("b"))
	}},
	{"AReleaseThatIsNotHandedOverIsForTheNext", func(s *suite) {
		e, _ := s.listenTo("n", lock.Fair)
		r := over(back(of(lock.Fair, "n", "o"), s.held("a", "b")), "b")
		if res := s.release(r); res.Listeners < 1 {
			s.Errorf("got %d listeners, want some", res.Listeners)
		}
		e.awaitTold(yours("a"))
	}},
	{"WhoLeavesMakesRoom", func(s *suite) {
		e, _ := s.listenTo("n", lock.Fair)
		s.held("a", "b", "c", "d")
		s.leave(lock.Fair, "c") // not the next one
		s.leave(lock.Fair, "a")
		e.awaitTold(soon("b"))
		s.letGo("o", "b")
		e.awaitTold(soon("b"), yours("b"))
		s.leave(lock.Fair, "b")
		e.awaitTold(soon("b"), yours("b"), yours("d"))
	}},
	{"AReleaseOfAWaiterMakesRoom", func(s *suite) {
		e, _ := s.listenTo("n", lock.Fair)
		s.held("a", "b")
		s.letGo("o", "a")
		s.notHeld(back(of(lock.Fair, "n", "a"), 0))
		e.awaitTold(yours("a"), yours("b"))
	}},
	{"EnlistingBehindAPlaceThatEndedTellsTheNext", func(s *suite) {
		e, _ := s.listenTo("n", lock.Fair)
		s.held("a", "b")
		s.letGo("o", "a")
		s.expirePlace("n", "a")
		s.enlist([]lock.Owner{"b", "c"}, lock.PlaceUnknown, 1)
		e.awaitTold(yours("a"), yours("b"))
	}},
	{"AForcedReleaseIsForTheNext", func(s *suite) {
		e, _ := s.listenTo("n", lock.Fair)
		s.held("a", "b")
		s.force("n", lock.Fair)
		e.awaitTold(yours("a"))
	}},
	{"NamesWithPatternsAreHeardAlone", func(s *suite) {
		for _, name := range []string{"n*", "n?", "[n]", `n\`} {
			e, _ := s.listenTo(name, lock.Fair)
			for _, other := range []string{"nn", "n", name} {
				c := of(lock.Fair, other, "o")
				s.acquire(c)
				w := of(lock.Fair, other, lock.Owner("w:"+other))
				w.Place = ttl
				s.refused(w)
				s.release(back(c, 0))
			}
			e.awaitTold(yours(lock.Owner("w:" + name)))
			s.must(s.Store.Leave(s.Context(), "nn", lock.Fair, fulls("w:nn")))
			s.must(s.Store.Leave(s.Context(), "n", lock.Fair, fulls("w:n")))
		}
	}},
}
