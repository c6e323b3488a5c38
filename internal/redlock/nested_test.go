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
