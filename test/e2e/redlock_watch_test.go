package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// Where clients of several replicas contend for a name, many of their attempts get some masters and no majority.
// Watchers hear of the grants alone, with all masters and with one less. 60 ends wait to be read without being merged.
func TestWatchersOverMastersHearOfGrantsAlone(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			if n > 3 {
				tier.Long(t)
			}
			masters := redistest.StartMasters(t, n)
			ds := []*harness.Lockd{startRedlock(t, masters), startRedlock(t, masters)}
			ears := []ear{watch(t, ds[0], "a", "job"), watch(t, ds[1], "b", "job")}
			hearGrantsAlone(t, ears, contend(t, ds, tier.Pick(5, 15)))
			masters[0].Kill()
			time.Sleep(time.Second)
			hearGrantsAlone(t, ears, contend(t, ds, tier.Pick(5, 15)))
		})
	}
}

// contend has two clients of each replica take and release the name so many times. It returns all fences.
func contend(t *testing.T, ds []*harness.Lockd, rounds int) map[uint64]bool {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	fences := map[uint64]bool{}
	for i := range 2 * len(ds) {
		c := ds[i%len(ds)].Dial(t)
		all.Go(func() {
			for range rounds {
				l, err := c.Lock(t.Context(), "job")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				fences[l.Fence()] = true
				mu.Unlock()
				if err := l.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	return fences
}

// hearGrantsAlone fails unless each heard once of the end of each grant, and of nothing else.
func hearGrantsAlone(t *testing.T, ears []ear, fences map[uint64]bool) {
	t.Helper()
	for _, e := range ears {
		times := map[uint64]int{}
		for patience := time.After(10 * time.Second); len(times) < len(fences); {
			select {
			case u := <-e.events:
				e.isOfGrant(u, fences, times)
				continue
			case <-patience:
			}
			t.Fatalf("%s heard of %d ends of %d", e.who, len(times), len(fences))
		}
		time.Sleep(soonTold)
		for range len(e.events) {
			e.isOfGrant(<-e.events, fences, times)
		}
	}
}

// isOfGrant fails unless an end is that of a grant, and told for the first time.
func (e ear) isOfGrant(u client.Unlocked, fences map[uint64]bool, times map[uint64]int) {
	e.t.Helper()
	times[u.Fence]++
	if !fences[u.Fence] || times[u.Fence] > 1 || u.Gap || u.Merged > 0 {
		e.t.Errorf("%s heard %+v: granted %v, told %d times", e.who, u, fences[u.Fence], times[u.Fence])
	}
	if u.Cause != client.UnlockReleased && u.Cause != client.UnlockHandedOver {
		e.t.Errorf("%s heard %+v, want a release", e.who, u)
	}
}
