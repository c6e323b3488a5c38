package pipe

import (
	"time"
)

const (
	// batchCost is what a batch may cost Redis, in singles of about 5 µs, unless a command alone costs more. So much is
	// done in less than a millisecond.
	batchCost = 128
	// largeCost is from where on a command is one of the large ones.
	largeCost = 16
	// fewJobs is how many jobs of a tenant go before those of tenants that have more: a quarter of a turn.
	fewJobs = 16
)

// line is jobs that wait, those of each tenant in their order. It is a deficit round robin: a tenant has its turn when
// it has credit, its jobs use that up, and each turn of all gives as much to each.
//
// Who has few jobs goes first. Of the others a tenant has its first turn at once. After that it is a busy one, which
// has its turn among the busy ones, until that finds no job of it.
type line struct {
	few, quick, busy ring
	n                int // jobs
	tenants          int // who have jobs that wait
}

// hasQuick says whether jobs wait of tenants that ask for little.
func (l *line) hasQuick() bool { return l.few.first != nil || l.quick.first != nil }

// hasBusy says whether jobs wait of busy tenants. Those at whose turn no job of them waits are busy no more.
func (l *line) hasBusy() bool {
	for l.busy.first != nil && l.busy.first.len() == 0 {
		l.busy.pop().end()
	}
	return l.busy.first != nil
}

// hungry is how many tenants have more than few jobs.
func (l *line) hungry() int { return max(l.tenants-l.few.n, 0) }

// put takes a job in.
func (l *line) put(s *share, j Job) {
	s.push(j)
	l.enter(s)
}

// back puts a job in front again that was not sent.
func (l *line) back(s *share, j Job) {
	s.back(j)
	l.enter(s)
}

// enter counts a job that a share has got, and has the share take its turns.
func (l *line) enter(s *share) {
	l.n++
	if s.len() == 1 {
		l.tenants++
	}
	switch {
	case s.in != nil:
	case s.credit <= -quantum:
		l.busy.push(s)
	default:
		s.earn()
		l.few.push(s)
	}
}

// take takes out the first job of a share.
func (l *line) take(s *share) Job {
	l.n--
	if s.len() == 1 {
		l.tenants--
	}
	return s.pop()
}

// cutQuick takes out jobs of tenants that ask for little, first those who ask for the least. A quarter is left to the
// rest of them, or they would wait for as long as others have few jobs. If that was not enough for their first job,
// they are first in the next batch.
//
// It says how many of those it took who have few.
func (l *line) cutQuick(b *batch, now time.Time) (few int) {
	l.sort()
	first, second := &l.few, &l.quick
	if l.quick.missed {
		first, second = second, first
	}
	most, limit := b.most, b.limit
	if second.first != nil {
		b.most, b.limit = most*3/4, limit*3/4
	}
	n := l.few.taken
	l.cutRing(first, b, now)
	b.most, b.limit = most, limit
	l.cutRing(second, b, now)
	missed := first.missed
	l.cutRing(first, b, now)
	first.missed = missed
	return l.few.taken - n
}

// sort has those in front who have come to have more than few jobs wait with the others of their kind.
func (l *line) sort() {
	for l.few.first != nil && !l.few.first.few() {
		l.quick.push(l.few.pop())
	}
}

// cutRing takes out jobs of tenants that ask for little, each of whom has a turn.
func (l *line) cutRing(r *ring, b *batch, now time.Time) {
	n := len(b.jobs)
	for r.first != nil && l.serve(r.first, b) {
		l.leave(r, now)
		l.sort()
	}
	r.taken += len(b.jobs) - n
	r.missed = r.first != nil && len(b.jobs) == n
}

// leave has the first one, whose turn is over, be a busy one if it has jobs left. Who has more than few is in any case,
// or it would have a first turn again and again.
func (l *line) leave(r *ring, now time.Time) {
	s := r.pop()
	if s.served = now; s.len() > 0 || r == &l.quick {
		l.busy.push(s)
	}
}

// cutBusy takes out jobs of the others, for so much in all, or a single one that costs more. Each tenant's are a
// section of their own.
func (l *line) cutBusy(b *batch, now time.Time, most int) {
	n, limit := len(b.jobs), b.limit
	b.limit = min(b.limit, b.cost+most)
	l.cutTurns(b, now)
	b.limit = limit
	l.busy.taken += len(b.jobs) - n
}

func (l *line) cutTurns(b *batch, now time.Time) {
	for l.hasBusy() && b.cost < b.limit {
		s := l.busy.first
		switch {
		case s.turn:
		case now.Sub(s.served) > longestRest:
			s.credit = quantum
		default:
			s.earn()
			if l.busy.last == s {
				s.borrow()
			}
		}
		if s.turn = s.credit > 0; !s.turn {
			s.end() // it may have been billed for more than the rest of its turn
			l.busy.turn()
			continue
		}
		if b.shared {
			b.begin(s)
		}
		if !l.serve(s, b) {
			return
		}
		s.end()
		s.served = now
		l.busy.turn()
	}
}

// serve moves jobs of a tenant to the batch while it has credit. It says whether the batch has room for more.
func (l *line) serve(s *share, b *batch) (room bool) {
	for s.len() > 0 && s.credit > 0 {
		cost, weighed := s.tenant.costs(s.first(), b.shared)
		if len(b.jobs) >= b.most || len(b.jobs) > 0 && b.cost+weighed > b.limit {
			return false
		}
		b.add(l.take(s), cost, weighed)
		s.sent++
		s.pay(weighed)
	}
	return true
}

// before takes those out that were queued before a time. Each share that has jobs is in one of the rings.
func (l *line) before(t time.Time, jobs []Job) []Job {
	for _, r := range []*ring{&l.few, &l.quick, &l.busy} {
		for s := r.first; s != nil; s = s.next {
			for s.len() > 0 && s.first().Queued.Before(t) {
				jobs = append(jobs, l.take(s))
			}
		}
	}
	return jobs
}
