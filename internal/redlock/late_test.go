package redlock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// Those who take names that nobody else wants never wait for each other's leftovers, also if a minority is silent: a
// member that carries out what it is asked in another order does not keep a hold that was released.
func TestNobodyIsInTheWayOfNamesThatNobodyElseWants(t *testing.T) {
	t.Parallel()
	for _, quiet := range tier.Pick([]int{1}, []int{0, 1, 2}) {
		inWorld(t, 5, Config{}, func(w *world) {
			var mu sync.Mutex
			rnd := rand.New(rand.NewPCG(1, uint64(quiet))) //nolint:gosec // no secret
			for i, n := range w.nodes {
				n.choose(func(string) fate {
					mu.Lock()
					defer mu.Unlock()
					return fate{before: time.Duration(rnd.IntN(int(3 * time.Millisecond))), after: time.Millisecond}
				})
				if i < quiet {
					n.becomes(silent)
				}
			}
			var wg sync.WaitGroup
			var slowest time.Duration
			for caller := range 16 {
				wg.Go(func() {
					for n := range tier.Pick(50, 300) {
						begun := time.Now()
						took, err := w.pair(fmt.Sprint("n", caller), lock.Owner(fmt.Sprint(caller, "#", n)), begun)
						mu.Lock()
						slowest = max(slowest, took)
						if err != nil {
							w.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if slowest > 100*time.Millisecond {
				t.Errorf("%d silent: a pair took %v, and answers come after 4 ms", quiet, slowest)
			}
			time.Sleep(time.Minute)
			for caller := range 16 {
				if os := w.holders(fmt.Sprint("n", caller)); slices.ContainsFunc(os, func(o lock.Owner) bool { return o != "" }) {
					t.Errorf("%d silent: %q have a name that was released", quiet, os)
				}
			}
		})
	}
}

// pair takes a name, asking again while somebody is in the way, and releases it.
func (w *world) pair(name string, o lock.Owner, begun time.Time) (time.Duration, error) {
	for {
		g, err := lock.Await(w.Context(), w.Store.StartAcquire, claimOf(name, o))
		if err == nil {
			_, err = lock.Await(w.Context(), w.Store.StartRelease, returnOf(name, o, g.Fence))
			return time.Since(begun), err
		}
		held, is := errors.AsType[*lock.HeldError](err)
		if !is {
			return time.Since(begun), err
		}
		time.Sleep(min(held.RetryAfter, 10*time.Millisecond))
	}
}
