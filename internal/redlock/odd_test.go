package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// oddlyHeld takes the name for an hour, with a greater fence at the last of three members.
func (w *world) oddlyHeld() lock.Fence {
	c := claimOf("n", "before")
	c.Fence = 8e15
	w.puts(2, c)
	w.nodes[2].Expire("n")
	w.nodes[2].choose(once("acquire", fate{before: 20 * time.Millisecond}))
	c = claimOf("n", "s:#o")
	c.TTL = time.Hour
	f := w.take(w.Store, c).Fence
	time.Sleep(time.Second)
	synctest.Wait()
	if n := w.Store.odd.len(); n != 1 {
		w.Fatalf("%d odd fences are remembered", n)
	}
	return f
}

// A member that knows a hold by a greater fence, and does not answer when it is released or handed over, is asked again
// with that fence.
func TestAMemberWithAnotherFenceIsAskedAgainToRelease(t *testing.T) {
	for name, what := range map[string]fate{"away": down, "silent": silent, "late": {before: 20 * time.Millisecond}} {
		for _, handed := range []bool{false, true} {
			inWorld(t, 3, Config{}, func(w *world) {
				r := returnOf("n", "s:#o", w.oddlyHeld())
				w.nodes[2].choose(once("release", what))
				if handed {
					w.pass(w.Store, toSuccessor(r.Owner, r.Fence, "s:#successor"))
				} else {
					w.give(w.Store, r)
				}
				time.Sleep(5 * time.Second)
				if o := w.nodes[2].has("n"); o == r.Owner {
					t.Errorf("%s, handed over %v: it is held there yet", name, handed)
				}
				if n := w.Store.odd.len(); n != 0 {
					t.Errorf("%s, handed over %v: %d odd fences are remembered", name, handed, n)
				}
			})
		}
	}
}
