package redlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/internal/watching"
)

// witness is who watches a name over a majority, as a replica does.
type witness struct {
	*Store
	hub   *watching.Hub
	again bool // an end may be repeated: members that were away may have the hold again

	mu    sync.Mutex // guards the fields below
	heard []string
}

func (x *witness) Watching(uint64) {}

func (x *witness) Unlocked(_ string, e watching.End) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.heard = append(x.heard, end(e.Cause, e.Fence))
}

// end is how a test writes that a hold ended.
func end(c lock.EndCause, f lock.Fence) string { return fmt.Sprintf("%d of %d", c, f) }

func released(f lock.Fence) watching.End { return watching.End{Cause: lock.EndReleased, Fence: f} }

// watched has so many replicas watch the name n.
func (w *world) watched(replicas int, cfg Config) (ws []*witness) {
	for range replicas {
		x := &witness{Store: w.another(cfg)}
		x.hub = watching.New(x.Store)
		w.Cleanup(x.hub.Close)
		x.hub.Watch("n", x, 1)
		ws = append(ws, x)
	}
	time.Sleep(2 * time.Second)
	return ws
}

// wantEnds checks that each heard of these ends once, and of no other one.
func (w *world) wantEnds(when string, ws []*witness, want []string) {
	w.Helper()
	time.Sleep(time.Minute)
	for i, x := range ws {
		x.mu.Lock()
		times := map[string]int{}
		for _, e := range x.heard {
			times[e]++
		}
		for _, e := range want {
			if times[e] == 0 || times[e] > 1 && !x.again {
				w.Errorf("%s: replica %d told %d times of %s, want once", when, i, times[e], e)
			}
			delete(times, e)
		}
		if len(times) > 0 {
			some := fmt.Sprint(times)
			w.Errorf("%s: replica %d told of %d ends that never were: %.200s", when, i, len(times), some)
		}
		x.heard = nil
		x.mu.Unlock()
	}
}

// contend has clients of all replicas take and release the name. It returns the ends of their holds.
func (w *world) contend(ws []*witness, clients, rounds int) (ends []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range clients {
		x := ws[i%len(ws)]
		all.Go(func() {
			time.Sleep(2 * time.Duration(i) * time.Microsecond)
			for n := range rounds {
				f := x.await(w, lock.Owner(fmt.Sprintf("o%d#%d", i, n)))
				mu.Lock()
				ends = append(ends, end(lock.EndReleased, f))
				mu.Unlock()
				time.Sleep(some(4 * time.Millisecond))
			}
		})
	}
	all.Wait()
	return ends
}

// await takes the name as soon as it is free, releases it and returns its fence.
func (x *witness) await(w *world, o lock.Owner) lock.Fence {
	for {
		g, err := x.Acquire(w.Context(), claimOf("n", o))
		switch held, isHeld := errors.AsType[*lock.HeldError](err); {
		case err == nil:
			time.Sleep(some(4 * time.Millisecond))
			w.give(x.Store, returnOf("n", o, g.Fence))
			x.hub.Ended("n", released(g.Fence))
			return g.Fence
		case isHeld:
			time.Sleep(min(held.RetryAfter, some(5*time.Millisecond)).Truncate(tick))
		case lock.Retriable(err):
			time.Sleep(some(5 * time.Millisecond))
		default:
			w.Error(err)
			return 0
		}
	}
}

// lagging has answers of all members come a little late, each time by another time.
func (w *world) lagging() {
	for _, n := range w.nodes {
		n.choose(func(string) fate { return fate{before: some(2 * time.Millisecond), after: some(2 * time.Millisecond)} })
	}
}

// tick is what all pauses are multiples of. Clients begin at other times, so that no two propose the same fence, or one
// that a member makes, which is one more than another: the clocks of all replicas are the same here.
const tick = 10 * time.Microsecond

// some is a random pause.
func some(most time.Duration) time.Duration { return rand.N(most).Truncate(tick) }

// Many attempts fail while several want a name. Nobody had it by them.
func TestWatchersOfAContendedNameHearOfGrantsAlone(t *testing.T) {
	t.Parallel()
	for _, members := range tier.Pick([]int{3}, []int{3, 5}) {
		inWorld(t, members, Config{}, func(w *world) {
			w.lagging()
			ws := w.watched(2, Config{})
			w.wantEnds("all are there", ws, w.contend(ws, 4, 60))
			w.nodes[0].away()
			w.wantEnds("one is away", ws, w.contend(ws, 4, 60))
		})
	}
}

// While a majority does not vote nobody can have a name; but who has it may release it.
func TestWatchersHearNothingOfAttemptsThatNobodyVotesFor(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.lagging()
		cfg := Config{Quarantine: time.Minute}
		ws := w.watched(2, cfg)
		for i := range w.nodes[:2] {
			w.nodes[i].restart()
		}
		f := w.take(ws[0].Store, claimOf("n", "o")).Fence // of those that vote
		time.Sleep(time.Second)
		w.nodes[2].restart()
		w.wantNoneNew(ws[1])
		w.wantEnds("not renewed", ws, []string{end(lock.EndExpired, f)}) // a majority had it until then
	})
}

// wantNoneNew makes attempts that must fail.
func (w *world) wantNoneNew(x *witness) {
	w.Helper()
	for i := range 50 {
		if g, err := x.Acquire(w.Context(), claimOf("n", lock.Owner(fmt.Sprintf("new#%d", i)))); err == nil {
			w.Errorf("granted: %+v", g)
		}
		time.Sleep(some(200 * time.Millisecond))
	}
}

// A hold that a majority has yet, thanks to members that do not vote, ends when it is released.
func TestTheEndOfAHoldIsToldWhileAMajorityDoesNotVote(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.lagging()
		ws := w.watched(2, Config{Quarantine: time.Minute})
		s := ws[0].Store
		f := w.take(s, claimOf("n", "o")).Fence
		w.Store = s
		for i := range w.nodes[:3] {
			time.Sleep(time.Second)
			w.nodes[i].restart()
			if err := w.renew(renewalOf("n", "o", f)); err != nil { // that puts it back
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		w.wantHolders("n", "o", "o", "o", "o", "o")
		w.give(s, returnOf("n", "o", f))
		ws[0].hub.Ended("n", released(f))
		w.wantNoneNew(ws[1])
		w.wantEnds("released", ws, []string{end(lock.EndReleased, f)})
	})
}

// All members lose their data, one after the other.
func TestWatchersHearOnceOfAHoldThatAllMembersLost(t *testing.T) {
	for range tier.Pick(2, 10) {
		inWorld(t, 5, Config{}, func(w *world) {
			w.lagging()
			ws := w.watched(2, Config{Quarantine: time.Minute})
			f := w.take(ws[0].Store, claimOf("n", "o")).Fence
			time.Sleep(time.Second)
			for _, n := range w.nodes {
				n.restart()
				time.Sleep(some(6 * time.Millisecond))
			}
			w.wantNoneNew(ws[1])
			w.wantEnds("lost", ws, []string{end(lock.EndDataLoss, f)})
		})
	}
}

// Members that are away do not change why a hold ended.
func TestAHandOverIsToldAsSuchWhileMembersAreAway(t *testing.T) {
	for _, away := range []int{0, 1, 2} {
		inWorld(t, 5, Config{}, func(w *world) {
			w.lagging()
			ws := w.watched(2, Config{})
			for _, n := range w.nodes[:away] {
				n.away()
			}
			time.Sleep(2 * time.Second)
			f := w.take(ws[0].Store, claimOf("n", "o")).Fence
			time.Sleep(time.Second)
			r := toSuccessor("o", f, "successor")
			if res, err := ws[0].Store.Release(w.Context(), r); err != nil || res.HandedOver == 0 {
				t.Fatalf("%+v %v", res, err)
			}
			time.Sleep(2 * time.Second)
			x := ws[1]
			x.mu.Lock()
			if want := end(lock.EndHandedOver, f); len(x.heard) != 1 || x.heard[0] != want {
				t.Errorf("%d away: heard %v, want %v", away, x.heard, want)
			}
			x.mu.Unlock()
		})
	}
}
