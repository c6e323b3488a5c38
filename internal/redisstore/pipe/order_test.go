package pipe

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// check says what is not in order in a pipeline whose batches under way are given.
func (p *Pipeline) check(under []*batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	quick, costly, large := 0, 0, false
	sent := map[*share]int{}
	for _, b := range under {
		if b.quick {
			quick++
		}
		if b.costly {
			costly++
		}
		large = large || b.large
		for _, j := range b.jobs {
			if j.share != nil {
				sent[j.share]++
			}
		}
	}
	switch {
	case p.busy != len(under):
		return fmt.Errorf("%d batches are counted as under way, %d are", p.busy, len(under))
	case p.pace.quick != quick || p.pace.costly != costly:
		return fmt.Errorf("%d quick and %d costly ones are counted, want %d and %d", p.pace.quick, p.pace.costly, quick,
			costly)
	case p.largeSent != large:
		return fmt.Errorf("large ones seem to be under way: %v, want %v", p.largeSent, large)
	case p.Waiting() != p.small.n+p.large.n:
		return fmt.Errorf("%d jobs seem to wait, want %d", p.Waiting(), p.small.n+p.large.n)
	}
	for s, n := range sent {
		if s.sent != n {
			return fmt.Errorf("%d jobs of %s are counted as under way, %d are", s.sent, s.tenant.name, n)
		}
	}
	for _, t := range p.tenants {
		for _, s := range []*share{&t.small, &t.large} {
			switch {
			case s.len() > 0 && s.in == nil:
				return fmt.Errorf("jobs of %s wait in no ring", t.name)
			case s.sent != sent[s]:
				return fmt.Errorf("%d jobs of %s are counted as under way, %d are", s.sent, t.name, sent[s])
			}
		}
	}
	return errors.Join(p.small.check(), p.large.check())
}

// check says what is not in order in a line.
func (l *line) check() error {
	jobs, tenants, seen := 0, 0, map[*share]bool{}
	for _, r := range []*ring{&l.few, &l.quick, &l.busy} {
		n, last := 0, (*share)(nil)
		for s := r.first; s != nil; n, last, s = n+1, s, s.next {
			switch {
			case seen[s]:
				return fmt.Errorf("%s is in the rings twice", s.tenant.name)
			case s.in != r:
				return fmt.Errorf("%s is in a ring that it does not know of", s.tenant.name)
			case s.turn && s != l.busy.first:
				return fmt.Errorf("%s has its turn, and is not the first of the busy ones", s.tenant.name)
			case s.credit > quantum || s.credit < -2*mostDebt || s.lent < 0 || s.lent > 0 && !s.turn:
				return fmt.Errorf("%s has a credit of %d, of which %d are lent", s.tenant.name, s.credit, s.lent)
			}
			seen[s] = true
			jobs += s.len()
			if s.len() > 0 {
				tenants++
			}
		}
		if r.n != n || r.last != last {
			return fmt.Errorf("a ring has %d shares, and counts %d", n, r.n)
		}
	}
	if l.n != jobs || l.tenants != tenants {
		return fmt.Errorf("%d jobs of %d tenants wait, and %d of %d are counted", jobs, tenants, l.n, l.tenants)
	}
	return nil
}

// looker says whether somebody will look for what waits, also if no batch under way is ever answered: a sender, or a
// timer.
func (p *Pipeline) looker() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.small.n == 0 && (p.large.n == 0 || p.largeSent) || len(p.wake) > 0 || p.pace.timer != nil
}

// Whatever happens in whatever order, all is counted, each job is told of once, and somebody looks for those that wait.
func TestAllIsInOrderAfterEachStep(t *testing.T) {
	for range 60 {
		seed := rand.Uint64()
		if err := stir(rand.New(rand.NewPCG(seed, seed)), 1500); err != nil { //nolint:gosec // it should be repeatable
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// stirred is a pipeline to which something happens.
type stirred struct {
	r           *rand.Rand
	p           *Pipeline
	now         time.Time
	under       []*batch
	idle        int // senders that wait until they are woken
	queued, end int
}

// stir has steps happen to a pipeline, one after the other. At last it has all be answered.
func stir(r *rand.Rand, steps int) error {
	x := &stirred{r: r, p: idle(), now: time.Now(), idle: Senders}
	x.p.up = Senders
	weights := []int{1, 1, 1, 8}
	x.p.Weight = func(from string) int { return weights[len(from)%len(weights)] }
	if r.IntN(4) == 0 {
		x.p.Most = 1 + r.IntN(4)
	}
	if r.IntN(4) == 0 {
		x.p.Weigh, x.p.Fair, x.p.Spread = r.IntN(2) == 0, r.IntN(2) == 0, true
	}
	x.p.pace.trip = time.Duration(r.IntN(2)) * linger
	for step := range steps {
		what := x.step(r.IntN(16))
		if err := x.p.check(x.under); err != nil {
			return fmt.Errorf("step %d (%s): %w", step, what, err)
		}
		if x.idle > 0 && !x.p.looker() {
			return fmt.Errorf("step %d (%s): %d jobs wait, and nobody looks for them", step, what, x.p.Waiting())
		}
	}
	for range 100_000 {
		if x.queued == x.end {
			return nil
		}
		x.now = x.now.Add(longestRest)
		if x.look(); len(x.under) > 0 {
			x.answer(0)
		}
		if err := x.p.check(x.under); err != nil {
			return fmt.Errorf("in the end: %w", err)
		}
	}
	return fmt.Errorf("%d jobs were queued, and %d are told of", x.queued, x.end)
}

func (x *stirred) step(what int) string {
	x.now = x.now.Add(time.Duration(x.r.IntN(1 << x.r.IntN(24))))
	switch {
	case what < 5:
		x.put()
		return "put"
	case what < 9:
		x.look()
		return "take"
	case what < 13 && len(x.under) > 0:
		x.answer(x.r.IntN(8))
		return "answer"
	case what == 13:
		x.end += len(x.p.before(x.now.Add(-time.Duration(x.r.IntN(20)) * time.Millisecond)))
		return "waited too long"
	case what == 14 && x.r.IntN(10) == 0:
		x.now = x.now.Add(2 * forgetAfter)
		x.p.mu.Lock()
		x.p.forgetLocked(x.now)
		x.p.mu.Unlock()
		return "forget"
	case what == 15:
		x.rested()
		return "rested"
	}
	return "nothing"
}

// put has a tenant ask for something.
func (x *stirred) put() {
	from := fmt.Sprint(x.r.IntN(1 << x.r.IntN(6)))
	cost := x.r.IntN(1 + 1<<x.r.IntN(10))
	if x.r.IntN(50) == 0 {
		cost = ProbeCost
	}
	for range 1 + x.r.IntN(1<<x.r.IntN(8)) {
		if x.p.Put(Job{Queued: x.now, Cost: cost, From: from, Done: func(error) { x.end++ }}) == nil {
			x.queued++
		}
	}
}

// rested has the timer fire, and the senders be woken.
func (x *stirred) rested() {
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	if timer := x.p.pace.timer; timer != nil && timer.Stop() {
		x.p.restedLocked(timer)
	}
}

// look has a sender that is idle take what there is.
func (x *stirred) look() {
	if x.idle == 0 {
		return
	}
	select {
	case <-x.p.wake:
	default:
	}
	x.p.mu.Lock()
	defer x.p.mu.Unlock()
	b := x.p.takeLocked(x.now)
	x.p.countLocked()
	if len(b.jobs) == 0 {
		return
	}
	x.idle--
	x.p.busy++
	x.p.pace.sent(&b, x.now)
	x.under = append(x.under, &b)
}

// answer ends a batch, sometimes without its being sent, or some of it.
func (x *stirred) answer(how int) {
	i := x.r.IntN(len(x.under))
	b := x.under[i]
	x.under = slices.Delete(x.under, i, i+1)
	x.p.mu.Lock()
	for how == 1 && len(b.jobs) > 0 && x.r.IntN(4) > 0 {
		b.drop(x.r.IntN(len(b.jobs)))
		x.end++
	}
	if b.measured && how > 3 {
		for i := range b.sections {
			x.p.billLocked(b, i, x.r.IntN(1<<x.r.IntN(16)))
		}
		b.trip = time.Microsecond
	}
	x.p.mu.Unlock()
	x.p.takenAt(b, how == 2, x.now)
	if how != 2 {
		x.end += len(b.jobs)
	}
	x.idle++
	select { // its sender looks again, as if it was woken
	case x.p.wake <- struct{}{}:
	default:
	}
}
