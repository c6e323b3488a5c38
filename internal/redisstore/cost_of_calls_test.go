package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/script"
	"github.com/lockd-io/lockd/internal/redistest"
)

func TestCostsAreThoseOfWhatIsAsked(t *testing.T) {
	s := open(t, quick(redistest.Start(t)))
	for _, c := range []struct {
		what     string
		call     script.Call
		min, max int
	}{
		{"a reader", s.acquireCall(kindClaim(lock.Read, "n", "o")), 1, 3},
		{"a fair waiter", s.acquireCall(kindClaim(lock.Fair, "n", "o")), 1, 3},
		{"a permit", s.acquireCall(permitsClaim("n", "o", 1, 1)), 1, 3},
		{"1,000 permits", s.acquireCall(permitsClaim("n", "o", 1000, 1000)), 300, 400},
		{
			"1,000 permits given back", s.releaseCall(lock.Return{
				Name: "n", Kind: lock.Semaphore, Owner: whole("o"), Permits: 1000,
			}),
			300, 400,
		},
	} {
		if c.call.Cost < c.min || c.call.Cost > c.max {
			t.Errorf("%s costs %d, want %d to %d", c.what, c.call.Cost, c.min, c.max)
		}
	}
}

// A session that has 100 requests for 64 names each unanswered leaves others their speed: they wait for a few of those,
// and not for all that wait.
func TestANeighbourOfACostlyFloodKeepsItsSpeed(t *testing.T) {
	s := open(t, quick(redistest.Start(t)))
	var stop atomic.Bool
	var done atomic.Int64
	var flood sync.WaitGroup
	for i := range 100 {
		flood.Go(func() {
			for n := 0; !stop.Load(); n++ {
				cs := make([]lock.Claim, 64)
				for k := range cs {
					cs[k] = claim(fmt.Sprintf("flood %d %d", i, k), whole(lock.Owner(fmt.Sprint("o", n))))
				}
				_, _ = s.AcquireAll(t.Context(), cs)
				done.Add(1)
			}
		})
	}
	until(t, "the flood", func() error {
		if done.Load() < 200 {
			return errors.New("it has not begun")
		}
		return nil
	})
	const pairs = 200
	begun, before := time.Now(), done.Load()
	for range pairs {
		g := acquire(t, s, claim("neighbour", "o"))
		_, err := s.Release(t.Context(), giveBack("neighbour", "o", g.Fence))
		must(t, err)
	}
	took, meanwhile := time.Since(begun), done.Load()-before
	stop.Store(true)
	flood.Wait()
	t.Logf("%d pairs took %v, beside %d calls for 64 names", pairs, took, meanwhile)
	if meanwhile > 10*2*pairs {
		t.Errorf("%d requests waited for %d calls of another, want at most 10 each", 2*pairs, meanwhile)
	}
}
