package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// hours is a clock that is wrong by so many.
func (s *Store) hours(n int) { s.fences.ahead.Store(int64(n) * int64(time.Hour/time.Microsecond)) }

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
