package pipe

import (
	"fmt"
	"testing"
	"time"
)

// putFor has a tenant queue so many jobs.
func (p *Pipeline) putFor(t *testing.T, from string, n, cost int) {
	t.Helper()
	for range n {
		if err := p.Put(Job{Queued: time.Now(), Cost: cost, From: from}); err != nil {
			t.Fatal(err)
		}
	}
}

// byTenant is what the jobs of a batch cost, by whose they are.
func byTenant(b batch) map[string]int {
	sums := map[string]int{}
	for _, j := range b.jobs {
		sums[j.From] += j.Cost
	}
	return sums
}

// Whoever asks for little goes with the next batch, however much others have waiting.
func TestWhoAsksForLittleIsNotBehindAFlood(t *testing.T) {
	for _, fair := range []bool{true, false} {
		p := idle()
		p.Fair = fair
		p.putFor(t, "flood", 10_000, 1)
		b := p.take() // until then it is not known for one
		p.taken(&b, false)
		p.putFor(t, "little", 8, 1)
		if got := byTenant(p.take())["little"]; got == 8 != fair {
			t.Errorf("the next batch has %d jobs of who asks for little; fair: %v", got, fair)
		}
	}
}

// Those who have much waiting get equal shares of what Redis does, whatever their jobs cost.
func TestBusyTenantsShareEqually(t *testing.T) {
	for _, costs := range [][]int{{1, 1, 1}, {1, 4, 16}, {17, 60, 300}} {
		p := idle()
		sums := map[string]int{}
		for range 2000 {
			for i, cost := range costs {
				if n := p.tenants[fmt.Sprint(i)]; n == nil || n.waiting() < 200 {
					p.putFor(t, fmt.Sprint(i), 200, cost)
				}
			}
			b := p.take()
			for from, sum := range byTenant(b) {
				sums[from] += sum
			}
			p.pace.lastQuick = time.Time{} // nobody asks for little
			p.taken(&b, false)
		}
		least, most := sums["0"], sums["0"]
		for _, sum := range sums {
			least, most = min(least, sum), max(most, sum)
		}
		if len(sums) != len(costs) || least*10 < most*9 {
			t.Errorf("jobs that cost %v: the tenants got %v", costs, sums)
		}
	}
}

// Jobs that turn out to cost much are paid for: their tenant has its turn less often.
func TestWhatJobsReallyCostIsPaidFor(t *testing.T) {
	p := idle()
	truth := map[string]int{"cheap": 1, "dear": 100}
	got := map[string]int{}
	for round := range 3000 {
		for from := range truth {
			if n := p.tenants[from]; n == nil || n.waiting() < 200 {
				p.putFor(t, from, 200, 1)
			}
		}
		b := p.take()
		for i, s := range b.sections {
			measured := 0
			for _, j := range b.part(i) {
				measured += truth[j.From]
			}
			if round > 100 && s.share != nil {
				got[s.share.tenant.name] += measured
			}
			p.billLocked(&b, i, measured+callCost)
		}
		p.pace.lastQuick = time.Time{}
		p.taken(&b, false)
	}
	if got["dear"] > got["cheap"]*3/2 || got["cheap"] > got["dear"]*3/2 {
		t.Errorf("Redis worked for them %v, want about as much for each", got)
	}
}

// While somebody is there who asks for little, costly batches make room: one at a time, and a pause after each.
func TestCostlyBatchesMakeRoom(t *testing.T) {
	p := idle()
	p.putFor(t, "flood", 1000, 1)
	known := p.take()
	p.taken(&known, false)
	p.putFor(t, "little", 1, 1)
	p.mu.Lock() // a timer looks again after pauses
	defer p.mu.Unlock()
	now := time.Now()
	first := p.takeLocked(now)
	if sum := byTenant(first)["flood"]; sum > quantum {
		t.Errorf("the first batch beside who asks for little has %d of the flood, want at most %d", sum, quantum)
	}
	p.pace.lastQuick = now
	b := p.takeLocked(now)
	if sum := byTenant(b)["flood"]; sum == 0 || sum > paced {
		t.Errorf("a batch has %d of the flood, want at most %d", sum, paced)
	}
	p.pace.sent(&batch{costly: true}, now)
	if again := p.takeLocked(now); len(again.jobs) > 0 {
		t.Errorf("another costly batch has %v while one is under way", byTenant(again))
	}
	p.pace.answered(&b, now)
	if again := p.takeLocked(now); len(again.jobs) > 0 {
		t.Errorf("another costly batch has %v at once", byTenant(again))
	}
	p.pace.lastQuick = now
	if again := p.takeLocked(now.Add(restFactor * paced * timeOfSingle)); byTenant(again)["flood"] == 0 {
		t.Error("no costly batch follows after the pause")
	}
	p.pace.costly = 1
	if again := p.takeLocked(now.Add(2 * linger)); len(again.jobs) != MaxBatch {
		t.Errorf("a batch has %d jobs when nobody asks for little any more, want %d", len(again.jobs), MaxBatch)
	}
}

// A costly batch that is not answered, as its connection may be silent, holds up those that follow for a while only.
func TestACostlyBatchWithoutAnAnswerHoldsNobodyUp(t *testing.T) {
	for name, led := range map[string]time.Duration{"who led is gone": 0, "somebody leads": 10 * longestRest} {
		t.Run(name, func(t *testing.T) {
			p := idle()
			p.putFor(t, "little", 1, 1)
			p.putFor(t, "flood", 1000, 1)
			for range 2 { // now the flood is known for one
				p.takeAt(false)
			}
			p.pace.resume = time.Time{}
			if b := p.take(); !b.costly { // which is not answered
				t.Fatal("a batch of the flood is not costly")
			}
			p.mu.Lock()
			p.pace.lastQuick = time.Now().Add(led)
			p.mu.Unlock()
			for len(p.wake) > 0 {
				<-p.wake
			}
			begun := time.Now()
			for b := p.take(); len(b.jobs) == 0; b = p.take() {
				select {
				case <-p.wake:
				case <-time.After(10 * longestRest):
					t.Fatal("jobs wait, and nobody looks for them")
				}
			}
			if held := time.Since(begun); led > 0 && held < longestRest/2 {
				t.Errorf("the next costly batch followed after %v", held)
			}
		})
	}
}

// What waits too long is told so whosever it is, and tenants that ask for nothing are forgotten.
func TestWhatWaitsTooLongOfAnyTenant(t *testing.T) {
	p := idle()
	old, failed := time.Now().Add(-2*p.Timeout), 0
	for i := range 30 {
		j := Job{Queued: old, Cost: i, From: fmt.Sprint(i % 3), Done: func(error) { failed++ }}
		if i >= 20 {
			j.Queued = time.Now()
		}
		if err := p.Put(j); err != nil {
			t.Fatal(err)
		}
	}
	p.failWaited()
	if failed != 20 || p.Waiting() != 10 {
		t.Errorf("%d failed and %d wait, want 20 and 10", failed, p.Waiting())
	}
	for left := 10; left > 0; {
		b := p.take()
		left -= len(b.jobs)
		p.pace.lastQuick = time.Time{}
		p.taken(&b, false)
	}
	p.forgetLocked(time.Now().Add(3 * forgetAfter))
	if len(p.tenants) > 0 {
		t.Errorf("%d tenants are known after all is done", len(p.tenants))
	}
}

// What waits when the pipeline is closed is sent without pauses: nobody would send it after that.
func TestNothingRestsWhileThePipelineCloses(t *testing.T) {
	p := idle()
	p.putFor(t, "little", 1, 1)
	p.putFor(t, "flood", 1000, 1)
	for range 2 { // until the flood is known for one
		b := p.take()
		p.taken(&b, false)
	}
	p.pace.lastQuick = time.Now().Add(time.Minute) // who asks for little is there all the time
	p.pace.resume = time.Now().Add(time.Minute)
	if b := p.take(); len(b.jobs) != 0 {
		t.Fatalf("got %d jobs, want none yet", len(b.jobs))
	}
	p.Close()
	for p.Waiting() > 0 {
		b := p.take()
		if len(b.jobs) == 0 {
			t.Fatalf("%d jobs wait, and none is sent", p.Waiting())
		}
		p.taken(&b, false)
	}
}

// What waits too long behind a flood of its own is told so in time, also while there is a connection.
func TestWhatWaitsTooLongBehindItsOwnFlood(t *testing.T) {
	p := idle()
	p.putFor(t, "little", 1, 1)
	old, failed := time.Now().Add(-2*p.Timeout), 0
	for range 1000 {
		if err := p.Put(Job{Queued: old, Cost: 1, From: "flood", Done: func(error) { failed++ }}); err != nil {
			t.Fatal(err)
		}
	}
	p.take()
	if failed != 1000 {
		t.Errorf("%d were told that they waited too long, want all 1,000", failed)
	}
}

// An even share of the room before Redis is reckoned with those who use it, and not with all who did a moment ago.
func TestAShareIsThatOfWhoeverHasSomethingWaiting(t *testing.T) {
	p := idle()
	for i := range 200 {
		p.putFor(t, fmt.Sprint("gone", i), 1, 1)
	}
	for p.Waiting() > 0 {
		b := p.take()
		p.taken(&b, false)
	}
	p.putFor(t, "flood", 1000, 1)
	p.putFor(t, "little", 8, 1)
	if its, all := p.Share("little"); its != 8 || all != 2 {
		t.Errorf("it has %d of what waits for %d tenants, want 8 for 2", its, all)
	}
}

// Jobs that lockd itself has much to do for are few at a time beside those of others, and as many as there is room for
// if there are none.
func TestJobsWithAWeightAreFewBesideOthers(t *testing.T) {
	p := idle()
	p.Weight = func(from string) int {
		if from == "dear" {
			return 8
		}
		return 1
	}
	p.putFor(t, "dear", 64, 1)
	p.putFor(t, "little", 8, 1)
	if got := byTenant(p.take()); got["dear"] > 2*quantum/8 || got["little"] != 8 {
		t.Errorf("a batch has %v, want all of who asks for little and about %d", got, quantum/8)
	}
	p = idle()
	p.Weight = func(string) int { return 8 }
	p.putFor(t, "dear", 64, 1)
	if b := p.take(); len(b.jobs) != 64 {
		t.Errorf("a batch has %d jobs of who is alone, want 64", len(b.jobs))
	}
}

// Of those who ask for little, who asks for the least goes first.
func TestWhoAsksForTheLeastGoesFirst(t *testing.T) {
	p := idle()
	for i := range 4 {
		p.putFor(t, fmt.Sprint("turn", i), quantum, 1)
	}
	p.putFor(t, "little", 8, 1)
	if got := byTenant(p.take()); got["little"] != 8 {
		t.Errorf("the next batch has %v, want all of who asks for the least", got)
	}
}

// Among tenants that ask for little, those with more than a few jobs have their turn, however many others ask again at
// once.
func TestNobodyIsPassedOverForEver(t *testing.T) {
	p := idle()
	const others, each = 40, 8 // more than a batch
	for i := range others {
		p.putFor(t, fmt.Sprint(i), each, 1)
	}
	p.putFor(t, "passed over", 3*fewJobs, 1)
	sum := 0
	for range 2 * (others*each + 3*fewJobs) / (MaxBatch / 4) {
		b := p.take()
		for from, n := range byTenant(b) {
			if from == "passed over" {
				sum += n
			} else {
				p.putFor(t, from, n, 1)
			}
		}
		p.taken(&b, false)
	}
	if sum < 3*fewJobs {
		t.Errorf("%d of its %d jobs were sent", sum, 3*fewJobs)
	}
}

// Measurements that are far too high because Redis did something else in between, have nobody taken for one whose jobs
// cost much.
func TestSomeWrongMeasurementsAreBorne(t *testing.T) {
	x := tenant{rate: rateOne}
	for i := range 300 {
		measured := 10
		if i%5 < 3 {
			measured = 1000
		}
		x.correct(measured, 10)
		if x.rate > 4*rateOne {
			t.Fatalf("measurement %d: jobs seem to cost %d/%d of what they do", i, x.rate, rateOne)
		}
	}
}
