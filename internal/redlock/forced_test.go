package redlock

import (
	"errors"
	"strconv"
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

// To free one name more by force costs the same however many were a moment ago: all who acquire wait for it.
func TestManyNamesAreFreedByForceQuickly(t *testing.T) {
	var s Store
	begun := time.Now()
	for i := range 20_000 {
		for range 5 { // members
			s.forced.put(strconv.Itoa(i), time.Now(), time.Hour)
		}
	}
	if took := time.Since(begun); took > 20*time.Second { // minutes if each looked at all
		t.Errorf("it took %v", took)
	}
	if !s.forcedSince([]lock.Claim{{Name: "0"}}, begun) || s.forcedSince([]lock.Claim{{Name: "0"}}, time.Now()) {
		t.Error("a name that was freed is forgotten, or when")
	}
}

// Names that were freed by force are forgotten when nobody asked before, but not while they were freed again since.
func TestNamesThatWereFreedByForceAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Store
		begun := time.Now()
		s.forced.put("again", time.Now(), time.Second)
		s.forced.put("once", time.Now(), time.Second)
		time.Sleep(900 * time.Millisecond)
		s.forced.put("again", time.Now(), time.Second)
		time.Sleep(900 * time.Millisecond)
		s.forced.put("other", time.Now(), time.Second)
		for name, want := range map[string]bool{"again": true, "once": false, "other": true} {
			if got := s.forcedSince([]lock.Claim{{Name: name}}, begun); got != want {
				t.Errorf("%s is known: %v", name, got)
			}
		}
	})
}
