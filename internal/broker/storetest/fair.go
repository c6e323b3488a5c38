package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// waits is a fair claim that keeps a place for the usual time.
func waits(o broker.Owner) broker.Claim {
	c := of(broker.Fair, "n", o)
	c.Place = ttl
	return c
}

// held is a fair hold of "n" that the named ones wait behind, in their order.
func (s *suite) held(waiters ...broker.Owner) broker.Fence {
	s.Helper()
	f := s.acquire(of(broker.Fair, "n", "o")).Fence
	for i, o := range waiters {
		if held := s.refused(waits(o)); held.Ahead != i || held.HeldBy != "o" {
			s.Errorf("%q is refused with %+v, want %d ahead", o, held, i)
		}
	}
	return f
}

// letGo releases a fair hold of "n" and checks whose turn it is.
func (s *suite) letGo(o, turn broker.Owner) {
	s.Helper()
	if res := s.release(back(of(broker.Fair, "n", o), 0)); res.Turn != turn {
		s.Errorf("got turn of %q, want %q", res.Turn, turn)
	}
}

func (s *suite) wantQueue(want ...broker.Owner) {
	s.Helper()
	got, err := s.Store.Queue(s.Context(), "n", 0, 100)
	s.must(err)
	if !slices.Equal(got, want) {
		s.Errorf("the queue is %q, want %q", got, want)
	}
	if n := s.look("n").Queued; int(n) != len(want) {
		s.Errorf("%d are queued, want %d", n, len(want))
	}
}

// enlist must answer as given.
func (s *suite) enlist(owners []broker.Owner, want ...int) {
	s.Helper()
	got, err := s.Store.Enlist(s.Context(), "n", owners, ttl)
	s.must(err)
	if !slices.Equal(got, want) {
		s.Errorf("enlisting %q got %d, want %d", owners, got, want)
	}
}

func (s *suite) leave(kind broker.Kind, owners ...broker.Owner) {
	s.Helper()
	s.must(s.Store.Leave(s.Context(), "n", kind, owners))
}

var fairContract = []contract{
	{"WaitersAreServedInTheirOrder", func(s *suite) {
		s.held("a", "b", "c")
		holder := broker.Owner("o")
		order := []broker.Owner{"a", "b", "c"}
		for i, next := range order {
			s.letGo(holder, next)
			for ahead, o := range order[i+1:] {
				held := s.refused(waits(o))
				s.wantTTL(held.RetryAfter, ttl)
				if held.HeldBy != next || held.Ahead != ahead+1 {
					s.Errorf("%q is refused with %+v, want %q to be before it, and %d", o, held, next, ahead+1)
				}
			}
			s.acquire(waits(next))
			s.wantQueue(order[i+1:]...)
			holder = next
		}
		s.letGo("c", "")
	}},
	{"AClaimWithoutAPlaceIsRefusedWhileOthersWait", func(s *suite) {
		s.held("a")
		if held := s.refused(of(broker.Fair, "n", "b")); held.Ahead != 1 || held.HeldBy != "o" {
			s.Errorf("got %+v, want o to hold it, and one ahead", held)
		}
		s.letGo("o", "a")
		if held := s.refused(of(broker.Fair, "n", "b")); held.Ahead != 1 || held.HeldBy != "a" {
			s.Errorf("got %+v, want a to be before it", held)
		}
		s.wantQueue("a")
		s.wantFree("n")
		s.acquire(of(broker.Fair, "n", "a")) // its place counts, not that it asks for one
	}},
	{"ARefusedClaimKeepsItsPlace", func(s *suite) {
		s.held("a", "b")
		for range 2 {
			if held := s.refused(waits("b")); held.Ahead != 1 {
				s.Errorf("got %+v, want one ahead", held)
			}
			if held := s.refused(of(broker.Fair, "n", "a")); held.Ahead != 0 {
				s.Errorf("got %+v, want none ahead", held)
			}
		}
		s.wantQueue("a", "b")
	}},
	{"ARepeatedGrantEndsThePlace", func(s *suite) {
		s.held("a")
		s.letGo("o", "a")
		f := s.acquire(waits("a")).Fence
		if again := s.acquire(waits("a")).Fence; again != f {
			s.Errorf("got fence %d, want %d again", again, f)
		}
		s.wantQueue()
	}},
	{"AReleaseGivesThePlaceUpInAnyCase", func(s *suite) {
		s.held("a", "b")
		r := back(of(broker.Fair, "n", "a"), 0)
		r.Remaining = 1
		s.notHeld(r)
		s.wantQueue("a", "b")
		r.Remaining = 0
		s.notHeld(r)
		s.wantQueue("b")
		s.notHeld(r)
		s.letGo("o", "b")
		s.acquire(waits("b"))
	}},
	{"AHandOverIsToTheNextOnly", func(s *suite) {
		f := s.held("a", "b")
		r := back(of(broker.Fair, "n", "o"), f)
		r.Next = &broker.Successor{Owner: "b", TTL: ttl}
		if res := s.release(r); res.HandedOver != 0 || res.Turn != "a" {
			s.Errorf("got %+v, want it freed for a", res)
		}
		s.wantFree("n")
		s.notHeld(r)
		r = back(of(broker.Fair, "n", "a"), s.acquire(waits("a")).Fence)
		r.Next = &broker.Successor{Owner: "b", TTL: ttl}
		res := s.release(r)
		if res.HandedOver <= r.Fence || res.Turn != "" {
			s.Errorf("got %+v, want it handed over", res)
		}
		if again := s.release(r); again.HandedOver != res.HandedOver {
			s.Errorf("repeated: got %+v, want fence %d", again, res.HandedOver)
		}
		s.wantQueue()
		s.wantState(heldAs(of(broker.Fair, "n", "b")))
		s.letGo("b", "")
	}},
	{"AHandOverPassesOverWhoHasNoPlaceAnyMore", func(s *suite) {
		f := s.held("a", "b")
		s.expirePlace("n", "a")
		r := back(of(broker.Fair, "n", "o"), f)
		r.Next = &broker.Successor{Owner: "b", TTL: ttl}
		if res := s.release(r); res.HandedOver <= f {
			s.Errorf("got %+v, want it handed over", res)
		}
		s.wantQueue()
	}},
	{"WhenNobodyWaitsItIsHandedToAnybody", func(s *suite) {
		r := back(of(broker.Fair, "n", "o"), s.held())
		r.Next = &broker.Successor{Owner: "b", TTL: ttl}
		if res := s.release(r); res.HandedOver <= r.Fence {
			s.Errorf("got %+v, want it handed over", res)
		}
		s.wantState(heldAs(of(broker.Fair, "n", "b")))
	}},
	{"AForcedReleaseKeepsTheQueue", func(s *suite) {
		s.held("a", "b")
		s.force("n", broker.Fair)
		s.wantQueue("a", "b")
		s.refused(waits("b"))
		s.acquire(waits("a"))
	}},
	{"TheQueueOutlivesTheLease", func(s *suite) {
		s.held("a", "b")
		s.must(s.Hooks.Expire("n"))
		if held := s.refused(waits("b")); held.HeldBy != "a" {
			s.Errorf("got %+v, want a to be before it", held)
		}
		s.acquire(waits("a"))
	}},
	{"AnExclusiveClaimIgnoresTheQueue", func(s *suite) {
		s.held("a")
		s.letGo("o", "a")
		s.acquire(claim("n", "x"))
		if held := s.refused(waits("a")); held.HeldBy != "x" {
			s.Errorf("got %+v, want x to hold it", held)
		}
	}},
	{"LookTellsOfTheQueue", func(s *suite) {
		s.held("a", "b")
		want := heldAs(of(broker.Fair, "n", "o"))
		want.Kind, want.Queued = broker.Fair, 2
		s.wantState(want)
		s.letGo("o", "a")
		s.wantState(broker.State{Name: "n", Kind: broker.Fair, Queued: 2})
	}},
	{"ANestedHoldDoesNotCareAboutTheQueue", func(s *suite) {
		f := s.held("a")
		s.acquire(again(of(broker.Fair, "n", "o"), 2, f))
		r := back(of(broker.Fair, "n", "o"), f)
		r.Remaining = 1
		if res := s.release(r); res != (broker.Returned{}) {
			s.Errorf("got %+v, want nothing", res)
		}
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
		if held := s.refused(waits("a")); held.Ahead != 0 { // it begins anew
			s.Errorf("got %+v, want none ahead", held)
		}
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
		s.letGo("o", "a")
		deadline := time.Now().Add(within)
		for {
			_, err := s.Store.Acquire(s.Context(), waits("b"))
			if err == nil {
				return
			}
			s.wantErr(err, broker.ErrHeld)
			if time.Now().After(deadline) {
				s.Fatal("the place does not end")
			}
			time.Sleep(time.Millisecond)
		}
	}},
	{"APlaceBehindThatEndedIsKeptIfItIsProlonged", func(s *suite) {
		s.held("a", "b", "c")
		s.expirePlace("n", "b")
		s.enlist([]broker.Owner{"b"}, broker.PlaceUnknown)
		s.wantQueue("a", "b", "c")
		s.expirePlace("n", "c")
		if held := s.refused(waits("c")); held.Ahead != 2 {
			s.Errorf("got %+v, want two ahead", held)
		}
		s.leave(broker.Fair, "a")
		s.wantQueue("b", "c")
	}},
	{"EnlistingGivesPlacesInOrder", func(s *suite) {
		s.held()
		s.enlist([]broker.Owner{"a", "b"}, 0, 1)
		s.enlist([]broker.Owner{"c"}, 2)
		s.enlist([]broker.Owner{"c", "a", "o", "d", "d"}, broker.PlaceUnknown, broker.PlaceUnknown, broker.PlaceHolds, 3,
			broker.PlaceUnknown)
		s.wantQueue("a", "b", "c", "d")
		s.letGo("o", "a")
		s.refused(waits("b"))
		s.acquire(waits("a"))
	}},
	{"EnlistingForAFreeNameKeepsOthersOut", func(s *suite) {
		s.enlist([]broker.Owner{"a", "b"}, 0, 1)
		s.refused(of(broker.Fair, "n", "x"))
		s.acquire(waits("a"))
	}},
	{"EnlistingNobodyIsNoWork", func(s *suite) {
		s.enlist(nil)
		s.wantQueue()
	}},
	{"ManyAreEnlistedInOrder", func(s *suite) {
		s.held()
		var owners []broker.Owner
		var want []int
		for i := range 1300 {
			owners = append(owners, broker.Owner(fmt.Sprint("w", i)))
			want = append(want, i)
		}
		s.enlist(owners, want...)
		var read []broker.Owner
		for from := 0; ; from += 400 {
			page, err := s.Store.Queue(s.Context(), "n", from, 400)
			s.must(err)
			if len(page) == 0 {
				break
			}
			read = append(read, page...)
		}
		if !slices.Equal(read, owners) {
			s.Errorf("got %d owners %.100q, want all in order", len(read), read)
		}
		s.leave(broker.Fair, owners[1:]...)
		s.wantQueue("w0")
	}},
	{"WhoLeavesIsNotWaitedFor", func(s *suite) {
		s.held("a", "b", "c")
		s.leave(broker.Fair, "b", "nobody", "a")
		s.wantQueue("c")
		s.leave(broker.Fair, "b", "a")
		s.leave(broker.Fair)
		s.letGo("o", "c")
		s.leave(broker.Fair, "c")
		s.acquire(of(broker.Fair, "n", "x"))
		s.leave(broker.Fair, "x") // it holds the name and has no place
		s.wantState(heldAs(of(broker.Fair, "n", "x")))
	}},
	{"TheQueueIsReadInPages", func(s *suite) {
		s.held("a", "b", "c")
		for _, p := range []struct {
			from, size int
			want       []broker.Owner
		}{{0, 2, []broker.Owner{"a", "b"}}, {1, 2, []broker.Owner{"b", "c"}}, {2, 5, []broker.Owner{"c"}}, {3, 1, nil}, {0, 0, nil}} {
			got, err := s.Store.Queue(s.Context(), "n", p.from, p.size)
			s.must(err)
			if !slices.Equal(got, p.want) {
				s.Errorf("%d from %d: got %q, want %q", p.size, p.from, got, p.want)
			}
		}
	}},
	{"ANameInOtherUseHasNoPlaces", func(s *suite) {
		s.must(s.Hooks.Occupy("n"))
		_, err := s.Store.Enlist(s.Context(), "n", []broker.Owner{"a"}, ttl)
		s.wantErr(err, broker.ErrKindMismatch)
		s.leave(broker.Fair, "a")
		_, err = s.Store.Enlist(s.ended(), "m", []broker.Owner{"a"}, ttl)
		s.wantErr(err, broker.ErrUnavailable)
		_, err = s.Store.Queue(s.ended(), "m", 0, 1)
		s.wantErr(err, broker.ErrUnavailable)
	}},
}

// yours is a notice that the name is free, for one waiter; soon that it will be.
func yours(o broker.Owner) broker.Notice { return broker.Notice{What: broker.NoticeReleased, For: o} }

func soon(o broker.Owner) broker.Notice {
	return broker.Notice{What: broker.NoticeTurn, For: o, After: ttl}
}

var fairListenContract = []contract{
	{"AReleaseIsForTheNextAndAGrantTellsTheOneAfter", func(s *suite) {
		e, _ := s.listenTo("n", broker.Fair)
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
		watcher.await("ends", func() bool { return watcher.heard[broker.NoticeEnded] == 3 })
		e.awaitTold(yours("a"), soon("b"), yours("b"))
	}},
	{"AHandOverTellsTheOneAfter", func(s *suite) {
		e, _ := s.listenTo("n", broker.Fair)
		r := back(of(broker.Fair, "n", "o"), s.held("a", "b"))
		r.Next = &broker.Successor{Owner: "a", TTL: ttl}
		s.release(r)
		e.awaitTold(soon("b"))
		s.release(r) // repeated
		s.letGo("a", "b")
		e.awaitTold(soon("b"), yours("b"))
	}},
	{"AReleaseThatIsNotHandedOverIsForTheNext", func(s *suite) {
		e, _ := s.listenTo("n", broker.Fair)
		r := back(of(broker.Fair, "n", "o"), s.held("a", "b"))
		r.Next = &broker.Successor{Owner: "b", TTL: ttl}
		if res := s.release(r); res.Listeners < 1 {
			s.Errorf("got %d listeners, want some", res.Listeners)
		}
		e.awaitTold(yours("a"))
	}},
	{"WhoLeavesMakesRoom", func(s *suite) {
		e, _ := s.listenTo("n", broker.Fair)
		s.held("a", "b", "c", "d")
		s.leave(broker.Fair, "c") // not the next one
		s.leave(broker.Fair, "a")
		e.awaitTold(soon("b"))
		s.letGo("o", "b")
		e.awaitTold(soon("b"), yours("b"))
		s.leave(broker.Fair, "b")
		e.awaitTold(soon("b"), yours("b"), yours("d"))
	}},
	{"AReleaseOfAWaiterMakesRoom", func(s *suite) {
		e, _ := s.listenTo("n", broker.Fair)
		s.held("a", "b")
		s.letGo("o", "a")
		s.notHeld(back(of(broker.Fair, "n", "a"), 0))
		e.awaitTold(yours("a"), yours("b"))
	}},
	{"EnlistingBehindAPlaceThatEndedTellsTheNext", func(s *suite) {
		e, _ := s.listenTo("n", broker.Fair)
		s.held("a", "b")
		s.letGo("o", "a")
		s.expirePlace("n", "a")
		s.enlist([]broker.Owner{"b", "c"}, broker.PlaceUnknown, 1)
		e.awaitTold(yours("a"), yours("b"))
	}},
	{"AForcedReleaseIsForTheNext", func(s *suite) {
		e, _ := s.listenTo("n", broker.Fair)
		s.held("a", "b")
		s.force("n", broker.Fair)
		e.awaitTold(yours("a"))
	}},
	{"NamesWithPatternsAreHeardAlone", func(s *suite) {
		for _, name := range []string{"n*", "n?", "[n]", `n\`} {
			e, _ := s.listenTo(name, broker.Fair)
			for _, other := range []string{"nn", "n", name} {
				c := of(broker.Fair, other, "o")
				s.acquire(c)
				w := of(broker.Fair, other, broker.Owner("w:"+other))
				w.Place = ttl
				s.refused(w)
				s.release(back(c, 0))
			}
			e.awaitTold(yours(broker.Owner("w:" + name)))
			s.must(s.Store.Leave(s.Context(), "nn", broker.Fair, []broker.Owner{"w:nn"}))
			s.must(s.Store.Leave(s.Context(), "n", broker.Fair, []broker.Owner{"w:n"}))
		}
	}},
}
