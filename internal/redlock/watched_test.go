package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/internal/watching"
)

// witness is a replica at which somebody watches a name.
type witness struct {
	*Store
	hub *watching.Hub
	ear ear
}

// contend has clients of all replicas take and release the name. It returns the ends of their holds.
func (w *world) contend(ws []*witness, clients, rounds int) (all []heard) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range clients {
		x := ws[i%len(ws)]
		wg.Go(func() {
			time.Sleep(2 * time.Duration(i) * time.Microsecond)
			for n := range rounds {
				f := x.await(w, lock.Owner(fmt.Sprintf("o%d#%d", i, n)))
				mu.Lock()
				all = append(all, heard{"released", f})
				mu.Unlock()
				time.Sleep(some(4 * time.Millisecond))
			}
		})
	}
	wg.Wait()
	return all
}

// await takes the name as soon as it is free, releases it and returns its fence.
func (x *witness) await(w *world, o lock.Owner) lock.Fence {
	for {
		g, err := lock.Await(w.Context(), x.StartAcquire, claimOf("n", o))
		switch held, isHeld := errors.AsType[*lock.HeldError](err); {
		case err == nil:
			time.Sleep(some(4 * time.Millisecond))
			w.give(x.Store, returnOf("n", o, g.Fence))
			x.hub.Ended("n", watching.End{Cause: lock.EndReleased, Fence: g.Fence})
			return g.Fence
		case isHeld:
			time.Sleep(min(held.RetryAfter, some(5*time.Millisecond)).Truncate(tick))
		case lock.Retriable(err):
			time.Sleep(some(5 * time.Millisecond))
		default:
			w.Error(err)
			return 0
		}
	}
}

// tick is what all pauses are multiples of. Clients begin at other times, so that no two propose the same fence, or one
// that a member makes, which is one more than another: the clocks of all replicas are the same here.
const tick = 10 * time.Microsecond

// some is a random pause.
func some(most time.Duration) time.Duration { return rand.N(most).Truncate(tick) }

// Many attempts fail while several want a name. Nobody had it by them.
func TestWatchersOfAContendedNameHearOfGrantsAlone(t *testing.T) {
	t.Parallel()
	for _, members := range tier.Pick([]int{3}, []int{3, 5}) {
		inWorld(t, members, Config{}, func(w *world) {
			for _, n := range w.nodes {
				n.choose(func(string) fate { return fate{before: some(2 * time.Millisecond), after: some(2 * time.Millisecond)} })
			}
			var ws []*witness
			for range 2 {
				x := &witness{Store: w.another(Config{})}
				x.hub = watching.New(x.Store)
				w.Cleanup(x.hub.Close)
				x.hub.Watch("n", &x.ear, 1)
				ws = append(ws, x)
			}
			time.Sleep(2 * time.Second)
			for _, when := range []string{"all are there", "one is away"} {
				byFence := func(a, b heard) int { return cmp.Compare(a.fence, b.fence) }
				want := slices.SortedFunc(slices.Values(w.contend(ws, 4, 60)), byFence)
				time.Sleep(time.Minute)
				for i, x := range ws {
					x.ear.mu.Lock()
					if got := slices.SortedFunc(slices.Values(x.ear.all), byFence); !slices.Equal(got, want) {
						t.Errorf("%s: replica %d heard of %d ends, want %d:\n%v\n%v", when, i, len(got), len(want), got, want)
					}
					x.ear.all = nil
					x.ear.mu.Unlock()
				}
				w.nodes[0].away()
			}
		})
	}
}
