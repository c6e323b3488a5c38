package redlock

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// hours is a clock that is wrong by so many.
func (s *Store) hours(n int) { s.fences.ahead.Store(int64(n) * int64(time.Hour/time.Microsecond)) }

// A replica whose clock is behind learns that from the first name that another has had. It does not cost a second round
// each time.
func TestAReplicaFollowsTheClockThatIsAhead(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		early, late := w.Store, w.another(Config{})
		late.hours(5)
		for i := range 100 {
			name := fmt.Sprint("n", i)
			for _, s := range []*Store{late, early} {
				f := w.take(s, claimOf(name, "o")).Fence
				synctest.Wait()
				w.give(s, returnOf(name, "o", f))
				synctest.Wait()
				time.Sleep(time.Second)
			}
		}
		raised := 0
		for _, n := range w.nodes {
			raised = max(raised, n.called("raise"))
		}
		if raised > 1 {
			t.Errorf("%d fences were raised, want the first one alone", raised)
		}
	})
}

// Replicas with clocks hours apart give strictly rising fences, whichever members answer, and though members lose their
// data.
func TestFencesRiseWhateverTheClocks(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		early, late := w.Store, w.another(Config{})
		late.hours(5)
		var last lock.Fence
		for i := range 200 {
			s := early
			if i%3 == 0 {
				s = late
			}
			away := w.nodes[i%5]
			away.becomes(down)
			if i%20 == 7 {
				away.restart()
			}
			g := w.take(s, claimOf("n", "o"))
			if g.Fence <= last {
				t.Fatalf("step %d: got %d after %d", i, g.Fence, last)
			}
			last = g.Fence
			synctest.Wait()
			w.give(s, returnOf("n", "o", g.Fence))
			away.becomes(fate{})
			time.Sleep(2 * time.Second)
		}
	})
}

// In the ordinary case all members are asked once; when they disagree a majority has the fence before it is told.
func TestAFenceIsRaisedBeforeItIsTold(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		first := w.take(w.Store, claimOf("n", "o"))
		synctest.Wait() // else the third member may be asked to take it after the release
		w.give(w.Store, returnOf("n", "o", first.Fence))
		synctest.Wait()
		for _, n := range w.nodes {
			if n.called("raise") > 0 {
				t.Error("a fence was raised that all members agree on")
			}
		}
		for i, f := range []lock.Fence{8e15, 7e15, 0} {
			c := claimOf("n", "odd")
			c.Fence = f
			w.puts(i, c)
			w.nodes[i].Expire("n")
		}
		begun := time.Now()
		for _, n := range w.nodes {
			n.lag(10 * time.Millisecond)
		}
		g := w.take(w.Store, claimOf("n", "o"))
		if took := time.Since(begun); took != 20*time.Millisecond {
			t.Errorf("it took %v, want two rounds", took)
		}
		synctest.Wait()
		same := 0
		for _, n := range w.nodes {
			st, _ := n.Store.Look(w.Context(), "n")
			if st.Fence == g.Fence {
				same++
			}
		}
		if same < 2 {
			t.Errorf("%d members have the fence that was told", same)
		}
		time.Sleep(time.Second)
		if err := w.renew(renewalOf("n", "o", g.Fence)); err != nil {
			t.Error(err)
		}
		c := claimOf("n", "o")
		c.Count, c.Fence = 2, g.Fence
		if again := w.take(w.Store, c); again.Fence != g.Fence {
			t.Errorf("nested: got %d, want %d", again.Fence, g.Fence)
		}
		if _, err := w.Store.Release(w.Context(), returnOf("n", "o", g.Fence-1)); !errors.Is(err, lock.ErrStale) {
			t.Errorf("with another fence: got %v", err)
		}
		w.give(w.Store, returnOf("n", "o", g.Fence))
		if next := w.take(w.Store, claimOf("n", "x")); next.Fence <= g.Fence {
			t.Errorf("got %d after %d", next.Fence, g.Fence)
		}
	})
}

// When so few members have the raised fence that another majority would not know it, it is not told.
func TestAFenceThatCannotBeRaisedIsNotTold(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		for i, f := range []lock.Fence{8e15, 7e15, 6e15} {
			c := claimOf("n", "odd")
			c.Fence = f
			w.puts(i, c)
			w.nodes[i].Expire("n")
		}
		for _, n := range w.nodes[:2] {
			n.choose(once("raise", down))
		}
		if g, err := w.Store.Acquire(w.Context(), claimOf("n", "o")); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %+v, %v, want an unknown outcome", g, err)
		}
		synctest.Wait()
		for _, n := range w.nodes {
			n.becomes(fate{})
		}
		first := w.take(w.Store, claimOf("n", "o")).Fence
		if again := w.take(w.Store, claimOf("n", "o")).Fence; again < first {
			t.Errorf("got %d after %d", again, first)
		}
	})
}

// A fence that could not be raised may be raised later. An attempt that follows is not told the one from before:
// renewals and releases with that would find another one at the members.
func TestAFenceThatMayYetBeRaisedIsNotTold(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		c := claimOf("n", "s:#1")
		c.Fence = 1
		w.puts(0, c)
		gone := false
		w.nodes[0].choose(func(op string) fate {
			gone = gone || op == "raise"
			return fate{refuse: gone}
		})
		w.nodes[1].choose(once("raise", fate{before: 100 * time.Millisecond}))
		w.nodes[2].choose(once("acquire", fate{after: 50 * time.Millisecond}))
		if g, err := w.Store.Acquire(w.Context(), claimOf("n", "s:#1")); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Fatalf("got %+v, %v, want an unknown outcome", g, err)
		}
		f := w.take(w.Store, claimOf("n", "s:#1")).Fence
		time.Sleep(time.Second)
		if err := w.renew(renewalOf("n", "s:#1", f)); err != nil {
			t.Errorf("the hold that was told is gone: %v", err)
		}
		w.give(w.Store, returnOf("n", "s:#1", f))
		time.Sleep(time.Second)
		if os := w.holders("n"); os[1] != "" || os[2] != "" {
			t.Errorf("released, it is held by %q", os)
		}
	})
}

// A fence that is told of a hold is one that a majority has: if it was that of a member at which others had the name in
// between, the next holder could have a smaller one.
func TestTheFenceOfAHoldIsThatOfAMajority(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		ahead, other := w.another(Config{}), w.another(Config{})
		ahead.hours(5)
		for _, n := range w.nodes[2:] {
			n.becomes(down)
		}
		_, _ = ahead.Acquire(w.Context(), claimOf("n", "ahead")) // two members know its fence
		synctest.Wait()
		for i, n := range w.nodes {
			n.lag(time.Duration(5-i) * time.Millisecond)
		}
		f := w.take(w.Store, claimOf("n", "o")).Fence
		time.Sleep(time.Second)
		for i, n := range w.nodes {
			n.lag(time.Duration(1+i) * time.Millisecond)
		}
		st, err := w.Store.Look(w.Context(), "n")
		if err != nil || st.Fence != f {
			t.Errorf("got %d, %v, want %d", st.Fence, err, f)
		}
		w.give(w.Store, returnOf("n", "o", f))
		time.Sleep(time.Second)
		w.nodes[0].becomes(down)
		w.nodes[1].becomes(down)
		if next := w.take(other, claimOf("n", "next")).Fence; next <= st.Fence {
			t.Errorf("the next one has fence %d, and %d was told before", next, st.Fence)
		}
	})
}

// With so many members away, or without the hold that they may have had, that it cannot be known which fence a majority
// has, a raise makes one known.
func TestARaisedFenceIsThatOfAMajority(t *testing.T) {
	low, high := claimOf("n", "o"), claimOf("n", "o")
	for _, is := range []func(w *world, n *node){
		func(_ *world, n *node) { n.becomes(down) }, func(_ *world, n *node) { n.Expire("n") },
		func(_ *world, n *node) { n.restart() },
		func(w *world, n *node) { n.restart(); w.puts(0, low) }, // a command that comes late
	} {
		inWorld(t, 5, Config{Quarantine: time.Minute}, func(w *world) {
			low.Fence, high.Fence = 100, 200
			for i := range w.nodes {
				c := low
				if i < 3 {
					c = high
				}
				w.puts(i, c)
			}
			if st, err := w.Store.Look(w.Context(), "n"); err != nil || st.Fence != 200 {
				t.Errorf("got %+v, %v", st, err)
			}
			is(w, w.nodes[0])
			if f, err := w.Store.Raise(w.Context(), high); err != nil || f != 200 {
				t.Errorf("got %d, %v", f, err)
			}
			synctest.Wait()
			if st, err := w.Store.Look(w.Context(), "n"); err != nil || st.Fence != 200 {
				t.Errorf("raised: got %+v, %v", st, err)
			}
		})
	}
}
