package redlock

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
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

// weather is a storm in which all happens that can.
func weather(t *testing.T, seed uint64, cfg Config) (wrong []string) {
	c := climate{
		cfg: cfg, shortest: 700 * time.Millisecond, longest: longestLease, leaves: true, restarts: true,
		forces: true,
	}
	return c.blow(t, seed, (*storm).aftermath)
}

func TestNoTwoHoldersWhateverMembersDo(t *testing.T) {
	t.Parallel()
	seeds := cmp.Or(*storms, tier.Pick(2, 40))
	base := cmp.Or(*stormSeed, rand.Uint64())
	for i := range seeds {
		seed := base + uint64(i) //nolint:gosec // small
		if wrong := weather(t, seed, Config{Quarantine: quarantine}); len(wrong) > 0 {
			t.Fatalf("seed %d: %d things went wrong; first: %q", seed, len(wrong), wrong[:min(5, len(wrong))])
		}
	}
}

// A silent member that took a name for an attempt that failed gives it back, long before the lease ends.
func silence(t *testing.T, _ uint64, cfg Config) (wrong []string) {
	inWorld(t, 5, cfg, func(w *world) {
		for i := range 3 {
			w.puts(i, claimOf("n", "other"))
		}
		w.nodes[3].choose(onceNoReply("acquire"))
		_, _ = w.Store.Acquire(w.Context(), claimOf("n", "o"))
		time.Sleep(3 * time.Second)
		if o := w.nodes[3].has("n"); o != "" {
			wrong = append(wrong, fmt.Sprintf("%s has it yet", o))
		}
	})
	return wrong
}

// What a minority handed over is given back.
func halfHanded(t *testing.T, _ uint64, cfg Config) (wrong []string) {
	inWorld(t, 5, cfg, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		for _, n := range w.nodes[:3] {
			n.Expire("n")
		}
		_, _ = w.Store.Release(w.Context(), toHeir("o", f, "heir"))
		synctest.Wait()
		for i, o := range w.holders("n") {
			if o != "" {
				wrong = append(wrong, fmt.Sprintf("member %d has it for %s", i, o))
			}
		}
	})
	return wrong
}

// What an attempt that failed has left at a member is being given back there, however long that takes. It is not the
// hold that the same owner was handed later: a renewal that counts on it is one of fewer members than it says.
func inVain(t *testing.T, _ uint64, cfg Config) (wrong []string) {
	inWorld(t, 3, cfg, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[0].Expire("n")
		w.nodes[0].choose(once("release", silent)) // so it is asked again to give back what it takes now
		if _, err := w.Store.Acquire(w.Context(), claimOf("n", "heir")); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		w.nodes[0].becomes(down)
		r := renewalOf("n", "heir", w.pass(w.Store, toHeir("o", f, "heir")))
		r.Sole = true               // as a broker says whose calls for this owner were all answered
		time.Sleep(5 * time.Second) // by now it is asked seldom
		w.nodes[0].becomes(fate{})
		w.nodes[2].becomes(down)
		err := w.renew(r)
		time.Sleep(9 * time.Second)
		w.nodes[2].becomes(fate{})
		if _, other := w.Store.Acquire(w.Context(), claimOf("n", "other")); err == nil && other == nil {
			wrong = append(wrong, "somebody else has the name, and the renewal lasts for another second")
		}
	})
	return wrong
}

func TestARenewalDoesNotCountOnWhatIsBeingGivenBack(t *testing.T) {
	if wrong := inVain(t, 0, Config{}); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// Each of the mistakes that these tests are there for is found by one of them.
func TestPlantedBugsAreFound(t *testing.T) {
	tier.Long(t)
	type test func(t *testing.T, seed uint64, cfg Config) (wrong []string)
	for _, c := range []struct {
		name  string
		cfg   Config
		found test
	}{
		{"half of the members", Config{Quarantine: quarantine, bugs: bugs{halfIsEnough: true}}, weather},
		{"no look at the time", Config{Quarantine: quarantine, bugs: bugs{trustLate: true}}, weather},
		{"no allowance for drift", Config{Quarantine: quarantine, bugs: bugs{noDrift: true}}, weather},
		{"unknowns are left", Config{Quarantine: quarantine, bugs: bugs{keepUnknown: true}}, silence},
		{"fences as they are", Config{Quarantine: quarantine, bugs: bugs{fencesAsTheyAre: true}}, weather},
		{"members vote when empty", Config{}, weather},
		{"an extension by one member", Config{Quarantine: quarantine, bugs: bugs{extendedByOne: true}}, weather},
		{"a hand-over by one member", Config{Quarantine: quarantine, bugs: bugs{handedByOne: true}}, weather},
		{"the fence of a minority's hand-over", Config{Quarantine: quarantine, bugs: bugs{handedAsIs: true}}, weather},
		{"what a minority handed over is left", Config{bugs: bugs{keepHanded: true}}, halfHanded},
		{"a renewal by the owner alone", Config{bugs: bugs{ownersAreEnough: true}}, inVain},
		{"an extension by the owner alone", Config{bugs: bugs{anyFence: true}}, inVainAtOnce},
		{"a hand-over to one that had left", Config{Quarantine: quarantine, bugs: bugs{keepCancelled: true}}, weather},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(100) {
				if wrong := c.found(t, seed, c.cfg); len(wrong) > 0 {
					t.Logf("found with seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Error("it was not found")
		})
	}
}

func TestASilentMemberGivesBack(t *testing.T) {
	if wrong := silence(t, 0, Config{}); len(wrong) > 0 {
		t.Error(wrong)
	}
}
