package pipe

import (
	"testing"
	"time"
)

// idle is a pipeline without senders.
func idle() *Pipeline {
	return newPipeline(Lanes{Most: MaxBatch, Senders: Senders, Weigh: true, Fair: true, Timeout: time.Minute})
}

func (p *Pipeline) queue(t *testing.T, n, cost int) {
	t.Helper()
	for range n {
		if err := p.Put(Job{Queued: time.Now(), Cost: cost}); err != nil {
			t.Fatal(err)
		}
	}
}

func costs(jobs []Job) (sum int) {
	for _, j := range jobs {
		sum += j.Cost
	}
	return sum
}

func TestBatchesAreCutByCost(t *testing.T) {
	for _, cost := range []int{1, 2, 5, largeCost, largeCost + 1, 64, 200} {
		p := idle()
		p.queue(t, 200, cost)
		for left := 200; left > 0; {
			b := p.take()
			if len(b.jobs) == 0 || len(b.jobs) > MaxBatch || costs(b.jobs) > batchCost && len(b.jobs) > 1 {
				t.Fatalf("a batch of %d jobs costs %d, want at most %d", len(b.jobs), costs(b.jobs), batchCost)
			}
			left -= len(b.jobs)
			p.taken(&b, false)
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
	p.taken(&first, false)
	for turn := range 6 {
		p.queue(t, 1, 1)
		b := p.take()
		if b.large != (turn%2 == 0) || len(b.jobs) == 0 {
			t.Errorf("turn %d: got %d jobs, large %v", turn, len(b.jobs), b.large)
		}
		p.taken(&b, false)
	}
}

func TestWhatWasNotSentKeepsItsPlace(t *testing.T) {
	p := idle()
	for cost := range 40 {
		if err := p.Put(Job{Queued: time.Now(), Cost: cost}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		b := p.take()
		p.taken(&b, true)
	}
	if p.largeSent {
		t.Error("large ones seem to be under way")
	}
	for cost := range 40 {
		s := &p.tenants[""].small
		if cost > largeCost {
			s = &p.tenants[""].large
		}
		if j := s.pop(); j.Cost != cost {
			t.Fatalf("job %d is at place %d", j.Cost, cost)
		}
	}
}

// However much of one tenant waits that is cheap, what is costly has its turn.
func TestLargeOnesOfOneTenantHaveTheirTurn(t *testing.T) {
	p := idle()
	p.queue(t, 10_000, 1)
	p.queue(t, 5, 100)
	for turn := range 10 {
		b := p.take()
		if b.large != (turn%2 == 0) || len(b.jobs) == 0 {
			t.Fatalf("turn %d: got %d jobs, large %v", turn, len(b.jobs), b.large)
		}
		p.taken(&b, false)
	}
}
