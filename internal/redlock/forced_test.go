package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// When a forced release has been told, no member carries it out any more: somebody else may have the name.
func TestAForcedReleaseTakesNothingFromTheNext(t *testing.T) {
	for name, late := range map[string]fate{
		"late, and heard":     {before: 200 * time.Millisecond},
		"late, and not heard": {before: 2 * time.Second, noReply: true},
	} {
		inWorld(t, 5, Config{}, func(w *world) {
			w.nodes[0].becomes(down)
			w.nodes[1].becomes(down)
			w.take(w.Store, claimOf("n", "o"))
			synctest.Wait()
			w.nodes[0].becomes(fate{})
			w.nodes[1].becomes(fate{})
			w.nodes[4].choose(once("force", late))
			if held, err := w.Store.ForceRelease(w.Context(), "n", lock.Exclusive); err != nil || !held {
				t.Errorf("%s: got %v, %v", name, held, err)
			}
			time.Sleep(time.Millisecond)
			w.nodes[4].Expire("n") // if it was not freed
			w.nodes[0].becomes(down)
			w.nodes[1].becomes(down)
			w.take(w.Store, claimOf("n", "next")) // with the late one
			time.Sleep(5 * time.Second)
			w.wantHolders("n", "", "", "next", "next", "next")
		})
	}
}

// A name that is freed by force while somebody takes it is not told to be taken by members that have not got it any
// more.
func TestAnAcquisitionThatMeetsAForcedReleaseIsNotTrusted(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		w.Cleanup(w.Store.ListenForced(func(string) {})) // as a broker does
		w.nodes[2].becomes(down)
		w.nodes[1].choose(once("acquire", fate{before: 200 * time.Millisecond}))
		first := make(chan error)
		go func() { _, err := w.Store.Acquire(w.Context(), claimOf("n", "o")); first <- err }()
		time.Sleep(100 * time.Millisecond)
		if _, err := w.another(Config{}).ForceRelease(w.Context(), "n", lock.Exclusive); err != nil {
			t.Error(err)
		}
		w.nodes[2].becomes(fate{})
		if err := <-first; !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %v, want an unknown outcome: one of three has it", err)
		}
		w.wantHolders("n", "", "o", "")
		f := w.take(w.Store, claimOf("n", "o")).Fence
		w.give(w.Store, returnOf("n", "o", f))
	})
}
