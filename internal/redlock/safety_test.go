package redlock

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// The safety test: clients of several replicas, with clocks that are hours apart, take names over five members that do
// everything members can do wrong. A judge knows who may believe to hold what.

var (
	storms    = flag.Int("redlock.storms", 0, "how many storms there are; 0 for some")
	stormSeed = flag.Uint64("redlock.seed", 0, "the seed of the first storm; 0 for another one each time")
)

// aftermath checks that when all is well again the name can be had.
func (s *storm) aftermath() {
	begun := time.Now()
	for {
		write := claimOf("rw", "last")
		write.Kind = lock.Write
		if _, err := s.stores[0].AcquireAll(context.Background(), []lock.Claim{claimOf("n", "last"), write}); err == nil {
			break
		}
		if time.Since(begun) > s.cfg.Quarantine+2*s.longest {
			s.fail("nobody gets the names %v after the faults stopped", time.Since(begun))
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
}

const (
	longestLease = 3 * time.Second
	// quarantine is as long as any lease at a member lasts.
	quarantine = 2 * longestLease
)

// In these storms all happens that can.
func TestNoTwoHoldersWhateverMembersDo(t *testing.T) {
	t.Parallel()
	c := climate{
		cfg: Config{Quarantine: quarantine}, shortest: 700 * time.Millisecond, longest: longestLease, leaves: true,
		restarts: true, forces: true,
	}
	base := cmp.Or(*stormSeed, rand.Uint64())
	for i := range cmp.Or(*storms, tier.Pick(2, 40)) {
		seed := base + uint64(i) //nolint:gosec // small
		if wrong := c.blow(t, seed, (*storm).aftermath); len(wrong) > 0 {
			t.Fatalf("seed %d: %d things went wrong; first: %q", seed, len(wrong), wrong[:min(5, len(wrong))])
		}
	}
}

// A silent member that took a name for an attempt that failed gives it back, long before the lease ends.
func TestASilentMemberGivesBack(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for i := range 3 {
			w.puts(i, claimOf("n", "other"))
		}
		w.nodes[3].choose(onceNoReply("acquire"))
		_, _ = w.Store.Acquire(w.Context(), claimOf("n", "o"))
		time.Sleep(3 * time.Second)
		if o := w.nodes[3].has("n"); o != "" {
			t.Errorf("%s has it yet", o)
		}
	})
}

// What an attempt that failed has left at a member is being given back there, however long that takes. It is not the
// hold that the same owner was handed later: a renewal that counts on it is one of fewer members than it says.
func TestARenewalDoesNotCountOnWhatIsBeingGivenBack(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[0].Expire("n")
		w.nodes[0].choose(once("release", silent)) // so it is asked again to give back what it takes now
		if _, err := w.Store.Acquire(w.Context(), claimOf("n", "successor")); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		w.nodes[0].becomes(down)
		r := renewalOf("n", "successor", w.pass(w.Store, toSuccessor("o", f, "successor")))
		r.Sole = true               // as a broker says whose calls for this owner were all answered
		time.Sleep(5 * time.Second) // by now it is asked seldom
		w.nodes[0].becomes(fate{})
		w.nodes[2].becomes(down)
		err := w.renew(r)
		time.Sleep(9 * time.Second)
		w.nodes[2].becomes(fate{})
		if _, other := w.Store.Acquire(w.Context(), claimOf("n", "other")); err == nil && other == nil {
			t.Error("somebody else has the name, and the renewal lasts for another second")
		}
	})
}
