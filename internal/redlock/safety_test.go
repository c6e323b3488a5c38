package redlock

import (
	"cmp"
	"context"
	"flag"
	"math/rand/v2"
	"testing"
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
