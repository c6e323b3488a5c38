package pipe

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// batch is what is sent at once.
type batch struct {
	jobs     []Job
	sections []section // of which it is known how long Redis took; the first one begins with the first job
	shared   bool      // there are several tenants
	large    bool
	quick    bool // it has small jobs of tenants that have few
	costly   bool // it has jobs of busy tenants, or large ones
	measured bool // Redis's clock is read before and after each section

	cost, burden int // what all jobs cost, and those of busy tenants
	most, limit  int // jobs, and their cost

	sent time.Time
	trip time.Duration // how long it was under way without being done; 0 if that is not known
}

// section is some jobs of a batch, from one number on.
type section struct {
	from  int
	cost  int    // as their senders said
	paid  int    // as their tenants have paid for, without weights
	share *share // whose they are; nil for several
}

// begin begins a section, unless the last one goes on.
func (b *batch) begin(s *share) {
	n := len(b.sections)
	switch {
	case n > 0 && s != nil && b.sections[n-1].share == s:
	case n > 0 && b.sections[n-1].from == len(b.jobs):
		b.sections[n-1].share = s
	default:
		b.sections = append(b.sections, section{from: len(b.jobs), share: s})
	}
}

func (b *batch) add(j Job, cost, weighed int) {
	if b.jobs == nil {
		b.jobs = make([]Job, 0, min(b.most, 8))
	}
	b.jobs = append(b.jobs, j)
	b.cost += weighed
	if n := len(b.sections); n > 0 {
		s := &b.sections[n-1]
		s.cost += j.Cost
		s.paid += cost
		if s.share != nil {
			b.burden += weighed
		}
	}
}

// drop takes a job out, of which nothing has to be paid.
func (b *batch) drop(i int) {
	if j := &b.jobs[i]; j.share != nil {
		cost, weighed := j.share.tenant.costs(j, b.shared)
		j.share.sent--
		j.share.pay(-weighed)
		own := b.large
		for k := range b.sections {
			if s := &b.sections[k]; s.from <= i && (k+1 == len(b.sections) || b.sections[k+1].from > i) {
				s.cost -= j.Cost
				s.paid -= cost
				own = own || s.share != nil
			}
		}
		if own {
			b.burden = max(b.burden-weighed, 0)
		}
	}
	b.jobs = append(b.jobs[:i], b.jobs[i+1:]...)
	for k := range b.sections {
		if b.sections[k].from > i {
			b.sections[k].from--
		}
	}
}

// parts are the jobs of each section.
func (b *batch) parts() [][]Job {
	if !b.measured {
		return [][]Job{b.jobs}
	}
	parts := make([][]Job, len(b.sections))
	for i := range b.sections {
		parts[i] = b.part(i)
	}
	return parts
}

func (b *batch) part(i int) []Job {
	if i+1 < len(b.sections) {
		return b.jobs[b.sections[i].from:b.sections[i+1].from:b.sections[i+1].from]
	}
	return b.jobs[b.sections[i].from:]
}

// sampled is one of how many batches is measured that have no jobs of busy tenants.
const sampled = 4

// measure says whether it is worth while to know what the batch costs.
func (b *batch) measure() bool {
	return len(b.sections) > 0 && (b.costly || rand.IntN(sampled) == 0) //nolint:gosec // no secret
}

// askTime has Redis tell its time when it comes to this place of a batch.
func askTime(ctx context.Context, p redis.Pipeliner) *redis.Cmd {
	cmd := redis.NewCmd(ctx, "time")
	_ = p.Process(ctx, cmd)
	return cmd
}

// timeOf reads an answer of TIME.
func timeOf(cmd *redis.Cmd) (time.Duration, bool) {
	list, err := cmd.StringSlice()
	if err != nil || len(list) != 2 {
		return 0, false
	}
	seconds, err1 := strconv.ParseInt(list[0], 10, 64)
	micros, err2 := strconv.ParseInt(list[1], 10, 64)
	return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond, err1 == nil && err2 == nil
}

const (
	// timeOfSingle is what a single costs.
	timeOfSingle = 5 * time.Microsecond
	// callCost is what a section costs besides its jobs, in singles.
	callCost = 4
)

// bill has the tenants of a batch pay for what it took, and corrects what is expected of them.
func (p *Pipeline) bill(b *batch, clocks []*redis.Cmd) {
	if !b.measured || len(clocks) != len(b.sections)+1 {
		return
	}
	all := time.Since(b.sent)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range b.sections {
		from, ok1 := timeOf(clocks[i])
		to, ok2 := timeOf(clocks[i+1])
		if !ok1 || !ok2 || to < from {
			return
		}
		all -= to - from
		p.billLocked(b, i, int((to-from)/timeOfSingle))
	}
	b.trip = max(all, time.Microsecond)
}

// billLocked has those pay whose jobs a section has, also if they were expected to cost something else: who has dear
// jobs seem cheap by cheap ones in between gains nothing. Of several who share a section nobody knows whose jobs were
// costly, so each pays a part. If that has them taken for busy ones, they get sections of their own.
func (p *Pipeline) billLocked(b *batch, i, measured int) {
	p.bills++
	s := &b.sections[i]
	extra := min(max(measured-callCost, s.cost)-s.paid, mostDebt)
	if s.share != nil {
		b.burden += extra * s.share.tenant.weight
		s.share.pay(extra * s.share.tenant.weight)
	}
	for _, j := range b.part(i) {
		if j.share == nil {
			continue
		}
		t := j.share.tenant
		if s.share == nil {
			j.share.pay(extra * j.Cost / max(s.cost, 1) * t.weight)
		}
		if t.billed != p.bills {
			t.billed = p.bills
			t.correct(measured, s.cost+callCost)
		}
	}
}
