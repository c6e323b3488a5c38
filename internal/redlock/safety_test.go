package redlock

import (
	"cmp"
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// The safety test: clients of several replicas, with clocks that are hours apart, take names over five members that do
// everything members can do wrong. A checker knows who may believe to hold what.

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

// eager is a member that has told its answer before it returns.
type eager struct{ lock.Store }

// answered starts a call and returns when its answer has been told.
func answered[R, T any](start func(R, func(T, error)), r R, done func(T, error)) {
	told := make(chan struct{})
	start(r, func(v T, err error) {
		done(v, err)
		close(told)
	})
	<-told
}

func (p eager) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	answered(p.Store.StartAcquire, c, done)
}

func (p eager) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	answered(p.Store.StartRelease, r, done)
}

// Nothing is told before a call that starts something returns, however soon members answer: callers hold mutexes.
func TestNothingIsToldBeforeACallReturns(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		var members []lock.Store
		for _, n := range w.nodes {
			members = append(members, eager{n})
		}
		s := w.over(Config{}, members...)
		var mu sync.Mutex
		under := func(start func(told func())) {
			over := make(chan struct{})
			mu.Lock()
			start(func() {
				mu.Lock()
				defer mu.Unlock()
				close(over)
			})
			mu.Unlock()
			<-over
		}
		for _, o := range []lock.Owner{"s:#1", "s:#2"} { // the second one is refused
			under(func(told func()) { s.StartAcquire(claimOf("n", o), func(lock.Grant, error) { told() }) })
		}
		release := func(r lock.Return, then ...lock.Owner) {
			under(func(told func()) { s.StartRelease(r, func(lock.Returned, error) { told() }) })
			if os := w.holders("n"); !slices.Equal(os, then) { // all are asked, also when a majority has answered
				t.Errorf("%q have it, want %q", os, then)
			}
		}
		next := returnOf("n", "s:#1", 0)
		next.Next = &lock.Successor{Owner: "s:#3", TTL: claimOf("n", "s:#3").TTL}
		release(next, "s:#3", "s:#3", "s:#3")
		release(returnOf("n", "s:#3", 0), "", "", "")
	})
}
