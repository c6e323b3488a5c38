package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Holds that are nested and given back, again and again, do not wait for each other at a silent member: what is kept of
// them is over when the member has been waited for, however many they are.
func TestNestedHoldsDoNotWaitForEachOtherAtASilentMember(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Read} {
		inWorld(t, 5, Config{}, func(w *world) {
			w.nodes[4].becomes(silent)
			c := claimOf("n", "o")
			c.Kind, c.TTL = k, time.Hour
			c.Fence = w.take(w.Store, c).Fence
			r := returnOf("n", "o", c.Fence)
			r.Kind = k
			begun := time.Now()
			for range 50 {
				c.Count, r.Remaining = 2, 1
				w.take(w.Store, c)
				w.give(w.Store, r)
			}
			if took := time.Since(begun); took > time.Second {
				t.Errorf("%v: it took %v", k, took)
			}
			time.Sleep(3 * patience)
			if n, under := w.Store.late.waiting(), w.Store.underWay.Load(); n != 0 || under != 0 {
				t.Errorf("%v: %d holds are remembered, %d calls are under way", k, n, under)
			}
			w.nodes[4].becomes(fate{})
			w.take(w.Store, c) // the member is asked again
			synctest.Wait()
			r.Remaining = 0
			w.give(w.Store, r)
			synctest.Wait()
			w.wantHolders("n", "", "", "", "", "")
		})
	}
}

// nearAndFar has two members be farther away than the others.
func (w *world) nearAndFar() {
	for i, n := range w.nodes {
		n.lag(time.Millisecond + time.Duration(i/3)*5*time.Millisecond)
	}
}

// A longer lease of a nested hold is known at members that are far away, too.
func TestANestedHoldForLongerSurvivesTheLossOfOneMember(t *testing.T) {
	inWorld(t, 5, Config{Quarantine: time.Hour}, func(w *world) {
		w.nearAndFar()
		c := claimOf("n", "o")
		c.Fence = w.take(w.Store, c).Fence
		c.Count, c.TTL = 2, time.Hour
		w.take(w.Store, c)
		time.Sleep(20 * time.Second)
		w.nodes[0].restart()
		r := renewalOf("n", "o", c.Fence)
		if left, err := w.Store.Extend(w.Context(), r); err != nil {
			t.Errorf("it lasts for %v, %v", left, err)
		}
	})
}

// What is given back of a nested hold is given back there, too.
func TestANestedReadThatWasGivenBackIsOverWithTheHoldEverywhere(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.nearAndFar()
		c := claimOf("n", "o")
		c.Kind = lock.Read
		c.Fence = w.take(w.Store, c).Fence
		time.Sleep(time.Second)
		c.Count, c.TTL = 2, time.Hour
		w.take(w.Store, c)
		r := returnOf("n", "o", c.Fence)
		r.Kind, r.Remaining = lock.Read, 1
		w.give(w.Store, r)
		time.Sleep(5 * time.Second)
		w.nodes[0].becomes(down)
		if st, err := w.Store.Look(w.Context(), "n"); err != nil || st.Count != 1 {
			t.Errorf("got %+v %v", st, err)
		}
		time.Sleep(10 * time.Second)
		w.wantHolders("n", "", "", "", "", "")
		c = claimOf("n", "writer")
		c.Kind = lock.Write
		if _, err := w.Store.Acquire(w.Context(), c); err != nil {
			t.Errorf("with one member down a writer gets %v", err)
		}
	})
}
