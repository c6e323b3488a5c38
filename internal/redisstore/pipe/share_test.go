package pipe

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// keep has a tenant always have jobs waiting.
func (p *Pipeline) keep(t *testing.T, from string, n, cost int) {
	t.Helper()
	if x := p.tenants[from]; x == nil || x.waiting() < n {
		p.putFor(t, from, n, cost)
	}
}

// takeAt takes a batch and answers it at once, as if no pause were due.
func (p *Pipeline) takeAt(led bool) batch {
	p.pace.resume, p.pace.lastQuick = time.Time{}, time.Time{}
	if led {
		p.pace.lastQuick = time.Now()
	}
	b := p.take()
	p.taken(&b, false)
	return b
}

// A busy tenant whose jobs are believed to be dear gets its share beside those who ask for little all the time, and so
// do those behind it.
func TestDearJobsOfABusyTenantAreSent(t *testing.T) {
	for _, c := range []struct {
		name                        string
		cost, rate, weight, littles int
		far                         bool
	}{
		{name: "as expected", cost: 1, rate: rateOne, weight: 1, littles: 1},
		{name: "one more than a batch has room for", cost: 16, rate: 24, weight: 1, littles: 1},
		{name: "believed to cost forty times as much", cost: 1, rate: 40 * rateOne, weight: 1, littles: 1},
		{name: "with a weight", cost: 8, rate: rateOne, weight: 8, littles: 1},
		{name: "of the most", cost: 16, rate: mostRate, weight: 1, littles: 1},
		{name: "many ask for little, far away", cost: 16, rate: 24, weight: 1, littles: 12, far: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := idle()
			p.Weight = func(from string) int {
				if from == "dear" {
					return c.weight
				}
				return 1
			}
			if c.far {
				p.pace.trip = 5 * linger
			}
			p.keep(t, "dear", 500, c.cost)
			p.keep(t, "cheap", 500, 1)
			p.tenants["dear"].rate = c.rate
			for range 40 { // until both are known for busy ones
				p.takeAt(false)
			}
			worked := map[string]int{}
			for range 4000 {
				p.keep(t, "cheap", 100, 1)
				p.keep(t, "dear", 100, c.cost)
				for i := range c.littles {
					p.keep(t, fmt.Sprint("little", i), 8, 2)
				}
				for from, sum := range byTenant(p.takeAt(true)) {
					if from == "dear" {
						sum *= c.rate / rateOne * c.weight
					}
					worked[from] += sum
				}
			}
			if d, c := worked["dear"], worked["cheap"]; d < c/2 || c < d/2 || c == 0 {
				t.Errorf("Redis worked %d for the dear one and %d for the other, want about as much", d, c)
			}
			if worked["little0"] < 4000 {
				t.Errorf("who asks for little got %d only", worked["little0"])
			}
		})
	}
}

// Few tenants with one large job each, again and again, leave turns to one that has many.
func TestLargeJobsOfABusyTenantAreSent(t *testing.T) {
	for _, led := range []bool{true, false} {
		for _, cost := range []int{17, 80, 300} {
			p := idle()
			p.putFor(t, "many", 20, cost)
			for range 200 * cost / quantum {
				for i := range 3 {
					p.keep(t, fmt.Sprint(i), 1, 60)
				}
				p.takeAt(led)
			}
			if n := p.tenants["many"].waiting(); n > 0 {
				t.Errorf("cost %d, led %v: %d of 20 were never sent", cost, led, n)
			}
		}
	}
}

// A job that has no room in the quarter for those with more than a few jobs is first in the next batch.
func TestADearJobOfAQuickTenantIsSent(t *testing.T) {
	p := idle()
	p.putFor(t, "dear", fewJobs+1, 16)
	p.tenants["dear"].rate = 24
	p.putFor(t, "behind", fewJobs+4, 1)
	for range 20 {
		for i := range 12 {
			p.keep(t, fmt.Sprint(i), 8, 2)
		}
		p.takeAt(true)
	}
	if n := p.tenants["behind"].waiting(); n > 0 || p.tenants["dear"].waiting() > fewJobs {
		t.Errorf("%d and %d wait still", p.tenants["dear"].waiting(), n)
	}
}

// Among very many busy tenants a measurement that was far too high has nobody wait for seconds.
func TestADebtIsForgivenAfterARest(t *testing.T) {
	const others = 100
	p, now := idle(), time.Now()
	for round := range 1000 {
		now = now.Add(time.Millisecond)
		for i := range others {
			p.keep(t, fmt.Sprint(i), 200, 1)
		}
		p.keep(t, "unlucky", 200, 1)
		p.mu.Lock()
		if round == 400 {
			p.tenants["unlucky"].small.pay(mostDebt)
		}
		b := p.takeLocked(now)
		p.pace.lastQuick = time.Time{}
		p.mu.Unlock()
		p.taken(&b, false)
		if x := p.tenants["unlucky"].small; round > 400 && now.Sub(x.served) > longestRest+others*2*time.Millisecond {
			t.Fatalf("it has had no turn for %v", now.Sub(x.served))
		}
	}
}

// Who asks for something dear and then for something cheap, again and again, pays for both, however many it asks for at
// a time.
func TestCheapJobsDoNotHideDearOnes(t *testing.T) {
	const dear = 100
	for _, each := range []int{1, 16, 64} {
		synctest.Test(t, func(t *testing.T) {
			p := idle()
			cheap, worked := false, map[string]int{}
			truth := func(j Job) int {
				if j.From == "sly" && !cheap {
					return dear
				}
				return 1
			}
			for round := range 3000 {
				p.keep(t, "honest", 200, 1)
				if x := p.tenants["sly"]; x == nil || x.waiting() == 0 {
					if cheap = !cheap; cheap {
						p.putFor(t, "sly", 1, 1)
					} else {
						p.putFor(t, "sly", each, 1)
					}
				}
				p.mu.Lock()
				b, all := p.takeLocked(time.Now()), 0
				for i := range b.sections {
					sum := 0
					for _, j := range b.part(i) {
						sum += truth(j)
						if round > 100 {
							worked[j.From] += truth(j)
						}
					}
					all += sum
					if b.measured {
						p.billLocked(&b, i, sum+callCost)
					}
				}
				p.mu.Unlock()
				time.Sleep(time.Duration(all) * timeOfSingle) // so long Redis works
				p.taken(&b, false)
				p.pace.resume, p.pace.lastQuick = time.Time{}, time.Time{} // as if no pause were due
			}
			if worked["sly"] > worked["honest"]*3/2 {
				t.Errorf("%d at a time: Redis worked %v, want no more for the sly one", each, worked)
			}
		})
	}
}
