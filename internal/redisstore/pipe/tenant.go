package pipe

import (
	"slices"
	"time"
)

const (
	// quantum is what a tenant's jobs may cost in one turn, in singles: about 300 µs of Redis.
	quantum = 64
	// mostDebt bounds what a tenant may owe, in singles: what the dearest small job costs, about 40 ms of Redis.
	mostDebt = 8192
	// longestRest is for how long a tenant has no turn because of what it owes. Among a hundred busy ones a debt would
	// last for seconds, and it may rest on a measurement that is wrong: Redis may have waited for a processor.
	longestRest = 100 * time.Millisecond
	// forgetAfter is when nothing is known any more of a tenant that asks for nothing.
	forgetAfter = time.Second
	// believed is of how many measurements the least is believed.
	believed = 3
	// rateOne is the rate of a tenant whose jobs cost what was expected. mostRate is that of jobs that cost 512 times
	// as much.
	rateOne  = 8
	mostRate = 512 * rateOne
)

// tenant is who shares a pipeline with others: a session, or all callers of one kind. Pipeline.mu guards it.
type tenant struct {
	name         string
	small, large share
	weight       int           // see Lanes
	rate         int           // what its jobs really cost: so many eighths of what was expected
	billed       uint64        // the last section that corrected the rate
	rates        [believed]int // that were measured last
	corrections  int
	last         time.Time // it asked
}

// waiting is how many of its jobs wait.
func (t *tenant) waiting() int { return t.small.len() + t.large.len() }

// cost is what a job is expected to cost, judged by the last ones.
func (t *tenant) cost(j *Job) int { return j.Cost * t.rate / rateOne }

// costs is that, and what the tenant has to pay, which is more beside others if it has a weight.
func (t *tenant) costs(j *Job, shared bool) (cost, weighed int) {
	cost = t.cost(j)
	if shared {
		return cost, cost * t.weight
	}
	return cost, cost
}

// correct notes that jobs cost so much in place of what was expected. It believes the least of the last
// measurements: the machine may have been busy with something else, or Redis with renewals. And it believes more slowly
// that jobs cost much.
func (t *tenant) correct(measured, expected int) {
	rate := measured * rateOne / max(expected, 1)
	t.rates[t.corrections%believed] = rate
	t.corrections++
	t.rate = min(max(slices.Min(t.rates[:]), t.rate/2, rateOne), t.rate*3/2, mostRate)
}

// share is a tenant's part of one line: its jobs, the oldest first.
type share struct {
	tenant *tenant
	jobs   []Job
	head   int // of jobs that are gone
	credit int // what it may cost until others have their turn; what it owes if below zero
	in     *ring
	lent   int       // of its credit
	sent   int       // jobs under way
	turn   bool      // it has its turn, and was given its credit for it
	next   *share    // in the ring
	served time.Time // when it had its last turn
}

// earn gives it what it may cost in a turn.
func (s *share) earn() { s.credit = min(s.credit+quantum, quantum) }

// borrow gives it a turn because nobody else wants one. What it owes it owes all the same, or a moment without others
// would end all debts.
func (s *share) borrow() {
	if s.credit <= 0 {
		s.lent, s.credit = quantum-s.credit, quantum
	}
}

// end ends its turn. What was lent is taken back.
func (s *share) end() {
	s.credit = max(s.credit-s.lent, -mostDebt)
	s.lent, s.turn = 0, false
}

// pay takes so much off its credit.
func (s *share) pay(cost int) { s.credit = min(max(s.credit-cost, -mostDebt), quantum) }

// few says whether it has few jobs, those under way included.
func (s *share) few() bool { return s.len()+s.sent <= fewJobs }

func (s *share) len() int { return len(s.jobs) - s.head }

func (s *share) first() *Job { return &s.jobs[s.head] }

func (s *share) pop() Job {
	j := s.jobs[s.head]
	s.jobs[s.head] = Job{}
	s.head++
	if s.head == len(s.jobs) {
		s.jobs, s.head = s.jobs[:0], 0
	}
	return j
}

func (s *share) push(j Job) {
	if s.head > 0 && len(s.jobs) == cap(s.jobs) && s.head >= len(s.jobs)/2 {
		n := copy(s.jobs, s.jobs[s.head:])
		clear(s.jobs[n:])
		s.jobs, s.head = s.jobs[:n], 0
	}
	s.jobs = append(s.jobs, j)
}

// back puts a job in front again.
func (s *share) back(j Job) {
	if s.head == 0 {
		s.jobs = append(s.jobs, Job{})
		copy(s.jobs[1:], s.jobs)
	} else {
		s.head--
	}
	s.jobs[s.head] = j
}

// ring is shares that have their turn one after the other.
type ring struct {
	first, last *share
	n           int
	taken       int  // jobs, in all
	missed      bool // the last batch had no room for the first job
}

func (r *ring) push(s *share) {
	s.in, s.next = r, nil
	if r.last == nil {
		r.first = s
	} else {
		r.last.next = s
	}
	r.last = s
	r.n++
}

// pop takes the first one out.
func (r *ring) pop() *share {
	s := r.first
	r.first = s.next
	if r.first == nil {
		r.last = nil
	}
	s.in, s.next = nil, nil
	r.n--
	return s
}

// turn has the second one be the first, and the first one the last.
func (r *ring) turn() { r.push(r.pop()) }
