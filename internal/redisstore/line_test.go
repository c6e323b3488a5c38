package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

// idle is a pipeline without senders.
func idle() *pipeline {
	return &pipeline{lanes: lanes{most: maxBatch, weigh: true, timeout: time.Second}, wake: make(chan struct{}, senders)}
}

func (p *pipeline) queue(t *testing.T, n, cost int) {
	t.Helper()
	for range n {
		must(t, p.put(job{queued: time.Now(), cost: cost}))
	}
}

func costs(jobs []job) (sum int) {
	for _, j := range jobs {
		sum += j.cost
	}
	return sum
}

func TestBatchesAreCutByCost(t *testing.T) {
	for _, cost := range []int{1, 2, 5, largeCost, largeCost + 1, 64, 200} {
		p := idle()
		p.queue(t, 200, cost)
		for left := 200; left > 0; {
			b := p.take()
			if len(b.jobs) == 0 || len(b.jobs) > maxBatch || costs(b.jobs) > batchCost && len(b.jobs) > 1 {
				t.Fatalf("a batch of %d jobs costs %d, want at most %d", len(b.jobs), costs(b.jobs), batchCost)
			}
			left -= len(b.jobs)
			p.taken(b, nil)
		}
	}
}

// However many costly commands wait, what is cheap waits for one batch of them.
func TestACostlyFloodLeavesEveryOtherBatchToOthers(t *testing.T) {
	p := idle()
	p.queue(t, 1000, 100)
	first := p.take()
	if len(first.jobs) != 1 || !first.large {
		t.Fatalf("got %+v, want one large job", first)
	}
	if b := p.take(); len(b.jobs) != 0 {
		t.Errorf("another sender got %+v while large ones are under way, want nothing", b)
	}
	p.queue(t, 10, 1)
	if b := p.take(); len(b.jobs) != 10 || b.large {
		t.Errorf("the other sender got %+v, want what is cheap", b)
	}
	// With one connection only they take turns.
	p.queue(t, 10, 1)
	p.taken(first, nil)
	for turn := range 6 {
		p.queue(t, 1, 1)
		b := p.take()
		if b.large != (turn%2 == 0) || len(b.jobs) == 0 {
			t.Errorf("turn %d: got %d jobs, large %v", turn, len(b.jobs), b.large)
		}
		p.taken(b, nil)
	}
}

func TestWhatWasNotSentKeepsItsPlace(t *testing.T) {
	p := idle()
	for cost := range 40 {
		must(t, p.put(job{queued: time.Now(), cost: cost}))
	}
	for range 2 {
		b := p.take()
		p.taken(b, b.jobs)
	}
	if p.largeSent {
		t.Error("large ones seem to be under way")
	}
	for cost, j := range append(p.small, p.large...) {
		if j.cost != cost {
			t.Fatalf("job %d is at place %d", j.cost, cost)
		}
	}
}

func TestCostsAreThoseOfWhatIsAsked(t *testing.T) {
	s := open(t, quick(redistest.Start(t)))
	for _, c := range []struct {
		what     string
		call     call
		min, max int
	}{
		{"a reader", s.acquireCall(kindClaim(lock.Read, "n", "o")), 1, 3},
		{"a fair waiter", s.acquireCall(kindClaim(lock.Fair, "n", "o")), 1, 3},
		{"a permit", s.acquireCall(permitsClaim("n", "o", 1, 1)), 1, 3},
		{"1,000 permits", s.acquireCall(permitsClaim("n", "o", 1000, 1000)), 300, 400},
		{"1,000 permits given back", s.releaseCall(lock.Return{Name: "n", Kind: lock.Semaphore, Owner: "o", Permits: 1000}), 300, 400},
	} {
		if c.call.cost < c.min || c.call.cost > c.max {
			t.Errorf("%s costs %d, want %d to %d", c.what, c.call.cost, c.min, c.max)
		}
	}
}

// A session that has 100 requests for 64 names each unanswered leaves others their speed: they wait for a few of those, and not
// for all that wait.
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
					cs[k] = claim(fmt.Sprintf("flood %d %d", i, k), lock.Owner(fmt.Sprint("o", n)))
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
