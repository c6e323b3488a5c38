package pipe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// idle is a pipeline without senders.
func idle() *Pipeline {
	d := Dialer{Scripts: map[string]string{"sha": "return 1"}, Forgotten: func() {}, Unended: new(Unended)}
	return newPipeline(d, Config{Most: MaxBatch, Fair: true, Timeout: time.Minute})
}

// put queues n jobs of a tenant.
func (p *Pipeline) put(t *testing.T, from string, n, cost int) {
	t.Helper()
	for range n {
		must(t, p.Put(Job{Queued: time.Now(), Cost: cost, From: from}))
	}
}

// byTenant is what the jobs of each tenant in a batch cost.
func byTenant(b batch) map[string]int {
	sum := map[string]int{}
	for _, j := range b.jobs {
		sum[j.From] += j.Cost
	}
	return sum
}

func TestBatchesAreCutByCost(t *testing.T) {
	for i, cost := range []int{1, 2, 5, 64, 200, 200} {
		p := idle()
		p.Fair = i%2 == 0
		p.put(t, "", 200, cost)
		for left := 200; left > 0; {
			b := p.take()
			if len(b.jobs) == 0 || len(b.jobs) > MaxBatch || len(b.jobs)*cost > meanCost*MaxBatch && len(b.jobs) > 1 {
				t.Fatalf("a batch of %d jobs costs %d, want at most %d", len(b.jobs), len(b.jobs)*cost, meanCost*MaxBatch)
			}
			left -= len(b.jobs)
			p.taken(&b)
		}
	}
}

// sentAgain has all of a batch sent again, as if Redis had forgotten the script, and says how many jobs are not.
func (p *Pipeline) sentAgain(b batch) (refused int) {
	for _, j := range slices.Backward(b.jobs) {
		if !p.again(j, "sha") {
			refused++
		}
	}
	return refused
}

func TestWhatIsSentAgainKeepsItsPlace(t *testing.T) {
	p := idle()
	for cost := range 40 {
		p.put(t, "", 1, cost+1)
	}
	for range 2 {
		b := p.take()
		p.taken(&b)
		if n := p.sentAgain(b); n > 0 {
			t.Errorf("%d jobs were not sent again", n)
		}
	}
	for cost := 1; cost <= 40; {
		b := p.take()
		for _, j := range b.jobs {
			if j.Cost != cost {
				t.Fatalf("job %d is at place %d", j.Cost, cost)
			}
			cost++
		}
		p.taken(&b)
	}
}

// What its tenant asked for afterwards may be on its way already.
func TestNothingIsSentAgainBehindWhatCameLater(t *testing.T) {
	p := idle()
	p.Most = 1
	p.put(t, "a", 2, 1)
	first, second := p.take(), p.take()
	p.taken(&first)
	if p.sentAgain(first) != 1 || p.Waiting() > 0 {
		t.Error("the first one is sent again behind the second one")
	}
	p.taken(&second)
	if p.sentAgain(second) != 0 || p.Waiting() != 1 {
		t.Error("the second one is not sent again")
	}
}

// Beside a light tenant one batch at a time has jobs of heavy ones, and few of them. Alone they have all there is.
func TestHeavyTenantsArePacedBesideLightOnes(t *testing.T) {
	p := idle()
	p.put(t, "flood", 1000, 1)
	p.put(t, "light", 8, 2)
	first := p.take()
	if got := byTenant(first); got["light"] != 16 || got["flood"] != pacedCost {
		t.Errorf("the first batch has %v, want all of the light one and %d of the flood", got, pacedCost)
	}
	if second := p.take(); len(second.jobs) > 0 {
		t.Errorf("the second one has %v, want nothing", byTenant(second))
	}
	p.taken(&first)
	p.queue.lightAt = time.Time{}
	for range 2 {
		if b := p.take(); len(b.jobs) != MaxBatch {
			t.Errorf("a batch has %d jobs of a flood that nobody is beside any more, want %d", len(b.jobs), MaxBatch)
		}
	}
}

// After a costly job of a heavy tenant beside a light one the heavy ones rest. Without a light one they do not.
func TestHeavyTenantsRestAfterCostlyJobs(t *testing.T) {
	for _, light := range []int{0, 1} {
		p := idle()
		p.put(t, "light", light, 1)
		p.put(t, "dear", 3, 1000)
		b := p.take()
		p.taken(&b)
		_, pause := p.held()
		if rests := byTenant(p.take())["dear"] == 0; rests != (light > 0) || rests != (pause > 0) || pause > mostRest {
			t.Errorf("%d light jobs: whether they rest is %v, for %v", light, rests, pause)
		}
	}
}

// Who comes back after a while has not saved anything up: of three whose jobs fill a batch by two, each has its part.
func TestWhoComesBackHasNoMoreThanOthers(t *testing.T) {
	p, sent := idle(), map[string]int{}
	work := func(rounds int, names ...string) {
		for range rounds {
			for _, name := range names {
				if x := p.queue.tenants[name]; x == nil || x.jobs.len() == 0 {
					p.put(t, name, 1, 60)
				}
			}
			b := p.take()
			p.taken(&b)
			for from := range byTenant(b) {
				sent[from]++
			}
		}
	}
	work(4, "away", "there", "here")
	work(60, "there", "here")
	clear(sent)
	if work(30, "away", "there", "here"); sent["away"] > 24 {
		t.Errorf("of 30 batches %v had a job of each, want about 20", sent)
	}
}

// Jobs that lockd itself has much to do for are few at a time beside those of others, and as many as there is room for
// if there are none.
func TestJobsWithACostFactorAreFewBesideOthers(t *testing.T) {
	p := idle()
	p.queue.costFactor = func(from string) int {
		if from == "dear" {
			return 8
		}
		return 1
	}
	p.put(t, "dear", 64, 1)
	p.put(t, "x", 200, 1)
	if got := byTenant(p.take()); got["dear"] > (pacedCost+turnCost)/8 {
		t.Errorf("a batch has %v, want at most %d of who has a cost factor", got, (pacedCost+turnCost)/8)
	}
	p = idle()
	p.queue.costFactor = func(string) int { return 8 }
	p.put(t, "dear", 64, 1)
	if b := p.take(); len(b.jobs) != 64 {
		t.Errorf("a batch has %d jobs of who is alone, want 64", len(b.jobs))
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
		must(t, p.Put(j))
	}
	if p.failWaited(); failed != 20 {
		t.Fatalf("%d were told that they waited too long, want 20", failed)
	}
	for left := 10; left > 0; {
		b := p.take()
		left -= len(b.jobs)
		p.taken(&b)
	}
	p.queue.forget(time.Now().Add(3 * forgetAfter))
	if len(p.queue.tenants) > 0 {
		t.Errorf("%d tenants are known after all is done", len(p.queue.tenants))
	}
}

// An even share of the room before Redis is reckoned with those who use it, and not with all who did a moment ago.
func TestAShareIsThatOfWhoeverHasSomethingWaiting(t *testing.T) {
	p := idle()
	for i := range 200 {
		p.put(t, fmt.Sprint("gone", i), 1, 1)
	}
	for p.Waiting() > 0 {
		b := p.take()
		p.taken(&b)
	}
	p.put(t, "flood", 1000, 1)
	p.put(t, "light", 8, 1)
	if its, all := p.Share("light"); its != 8 || all != 2 {
		t.Errorf("it has %d of what waits for %d tenants, want 8 for 2", its, all)
	}
}

// check says what is not in order in a pipeline whose batches under way are given.
func (p *Pipeline) check(under []*batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &p.queue
	light, heavy, jobs, load := 0, 0, 0, map[*tenant]int{}
	for _, b := range under {
		if b.light {
			light++
		}
		if b.heavy > 0 {
			heavy++
		}
		for _, j := range b.jobs {
			if j.tenant != nil {
				load[j.tenant] += j.tenant.price(&j)
			}
		}
	}
	for _, c := range []*class{&q.light, &q.heavy} {
		for i, t := range c.waiting {
			jobs += t.jobs.len()
			for k := range t.jobs.len() {
				load[t] += t.price(&t.jobs.all[t.jobs.head+k])
			}
			if t.class != c || t.place != i || t.jobs.len() == 0 || q.tenants[t.name] != t {
				return fmt.Errorf("%s is at a wrong place", t.name)
			}
			if i > 0 && c.Less(i, (i-1)/2) {
				return fmt.Errorf("%s has had less than one before it", t.name)
			}
		}
	}
	for _, t := range q.tenants {
		if t.load != load[t] {
			return fmt.Errorf("the load of %s is %d, want %d", t.name, t.load, load[t])
		}
	}
	if q.lightUnder != light || q.heavyUnder != heavy || q.n != jobs || p.Waiting() != jobs {
		return fmt.Errorf("%d light batches, %d heavy, %d and %d jobs are counted, want %d, %d, %d", q.lightUnder,
			q.heavyUnder, q.n, p.Waiting(), light, heavy, jobs)
	}
	return nil
}

// Whatever happens in whatever order, all is counted, and each job is told of once.
func TestAllIsInOrderAfterEachStep(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		x := &random{Rand: rand.New(rand.NewPCG(seed, seed)), p: idle()} //nolint:gosec // it should be repeatable
		x.p.queue.costFactor = func(name string) int { return 1 + len(name) }
		if x.IntN(4) == 0 {
			x.p.Most = 1 + x.IntN(4)
		}
		if x.IntN(4) == 0 {
			x.p.Fair = false
		}
		if err := x.run(600); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// random is a pipeline to which things happen in random order.
type random struct {
	*rand.Rand
	p           *Pipeline
	under       []*batch
	queued, end int
}

func (x *random) run(steps int) error {
	for step := 0; step < steps || x.end < x.queued; step++ {
		switch what := x.IntN(16); {
		case what < 4 && step < steps:
			x.put()
		case what < 9:
			if b := x.p.take(); len(b.jobs) > 0 {
				x.under = append(x.under, &b)
			}
		case what < 14 && len(x.under) > 0:
			x.answer(what)
		case what == 14:
			x.end += len(x.p.before(time.Now().Add(-time.Duration(x.IntN(100)) * time.Microsecond)))
		case what == 15:
			x.p.queue.forget(time.Now().Add(2 * forgetAfter))
		}
		if err := x.p.check(x.under); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if step > 100*steps {
			return errors.New("some jobs are never told of")
		}
	}
	return nil
}

// put has a tenant ask for something.
func (x *random) put() {
	from, cost := fmt.Sprint(x.IntN(1<<x.IntN(6))), x.IntN(1+1<<x.IntN(10))
	if x.IntN(50) == 0 {
		cost = probeCost
	}
	for range 1 + x.IntN(1<<x.IntN(8)) {
		if x.p.Put(Job{Queued: time.Now(), Cost: cost, From: from, Done: func(error) { x.end++ }}) == nil {
			x.queued++
		}
	}
}

// answer ends a batch, or has some of it sent again.
func (x *random) answer(how int) {
	i := x.IntN(len(x.under))
	b := x.under[i]
	x.under = slices.Delete(x.under, i, i+1)
	x.p.taken(b)
	for _, j := range slices.Backward(b.jobs) {
		if how < 12 || !x.p.again(j, "sha") {
			x.end++
		}
	}
}
