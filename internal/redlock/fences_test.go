package redlock

import (
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

// Watchers hear of the end of an extended read hold with the fence that its caller was told.
func TestTheEndOfAnExtendedReadHoldHasItsFence(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		var ends []lock.Fence
		stop := w.Watch("n", func(n lock.Notice) {
			if n.What == lock.NoticeEnded && !n.Unsure {
				ends = append(ends, n.Fence)
			}
		})
		defer stop()
		synctest.Wait()
		c := claimOf("n", unary)
		c.Kind = lock.Read
		f := w.take(w.Store, c).Fence
		synctest.Wait()
		r := renewalOf("n", unary, 0)
		r.Kind = lock.Read
		if _, err := w.Store.Extend(w.Context(), r); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.give(w.Store, lock.Return{Name: "n", Kind: lock.Read, Owner: unary})
		synctest.Wait()
		if len(ends) != 1 || ends[0] != f {
			t.Errorf("got ends with fences %d, want %d", ends, f)
		}
	})
}
