package watchdog

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// askedAtOnce is how many leases are asked, or told, something in one go, while others wait for their mutexes.
const askedAtOnce = 64

// item is a lease that is due.
type item[L Lease[L]] struct {
	lease   L
	shard   *shard[L]
	id      uint32
	renew   bool   // else it is due because its validity may be over
	hurried bool   // was in shard.ready
	planned moment // when it was to be renewed
}

// load is what one call is to renew, or verify.
type load[L Lease[L]] struct {
	items []item[L]
	cost  int // of renewals
}

func (l *load[L]) add(s *shard[L], id uint32, e *entry[L], hurried bool, planned moment) {
	l.items = append(l.items, item[L]{e.lease, s, id, true, hurried, planned})
	l.cost += int(e.cost)
}

// batch is what one call renews.
type batch[L Lease[L]] struct {
	start    time.Time
	sort     sort
	items    []item[L]
	renewals []lock.Renewal
	hurried  bool // the call counts in Watchdog.hurried
	under    int  // what counts in Watchdog.underWay
}

// due takes what is due now, and renewals that are due soon. Rounds have a share of their own, however many leases end.
// Only the loop calls it.
func (w *Watchdog[L]) due() (due [sorts]load[L]) {
	w.first++
	looks := 0
	for i := range w.shards {
		looks = w.shards[(w.first+i)%shards].due(&due, looks)
	}
	l := &due[grouped]
	others := l.cost
	for s, _ := w.oldest(); s != nil && w.mayBegin() && l.cost-others < maxBatch; s, _ = w.oldest() {
		s.takePiece(l)
	}
	return due
}

// oldest is the shard with the piece of a round whose turn came first, and when that piece was planned; nil and never
// if none is due.
func (w *Watchdog[L]) oldest() (oldest *shard[L], planned moment) {
	first := w.now() + 1
	planned = never
	for i := range w.shards {
		if at, plan := w.shards[i].firstPiece(); at < first {
			oldest, first, planned = &w.shards[i], at, plan
		}
	}
	return oldest, planned
}

// firstPiece says when the turn of the first piece of a round comes, and when it was planned; never if there is none.
func (s *shard[L]) firstPiece() (at, plan moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, some := s.rounds.Min(); some {
		return r.at, s.groups[r.id].plan
	}
	return never, never
}

// takePiece adds the first piece to l, unless it was planned anew just now. A lease that is being renewed already is
// renewed once more after that, if the round follows a sign of life.
func (s *shard[L]) takePiece(l *load[L]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.w.now()
	r, some := s.rounds.Min()
	if !some || r.at > now {
		return
	}
	s.rounds.DeleteMin()
	heard, plan := s.groups[r.id].heard, s.groups[r.id].plan
	for _, id := range s.pieceLocked(r.id, now) {
		e := s.entries.at(id)
		if e.busy {
			e.again = e.again || heard
			continue
		}
		l.add(s, id, e, false, plan)
	}
}

// due adds what the timeline has for now, and what is ready. looks counts the places of timelines looked at.
func (s *shard[L]) due(due *[sorts]load[L], looks int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.w.now()
	looks = s.nearLocked(&due[grouped], now, looks)
	for so := range sorts {
		s.takeReadyLocked(&due[so], so, now)
	}
	return looks
}

// takeReadyLocked adds what is ready, while there is room.
func (s *shard[L]) takeReadyLocked(l *load[L], so sort, now moment) {
	for len(s.ready[so]) > 0 && s.w.mayHurry(so) && l.cost < maxBatch {
		id := s.ready[so][0]
		if s.ready[so] = s.ready[so][1:]; len(s.ready[so]) == 0 {
			s.ready[so] = nil
		}
		switch e := s.entries.at(id); {
		case !e.ready:
		case e.busy: // its renewal was about to begin when it was hurried
			e.ready, e.again = false, true
		default:
			e.ready = false
			l.add(s, id, e, true, now)
		}
	}
}

// nearLocked adds the leases that may be over by the timeline. A lease that is due by itself, to be verified or to be
// renewed again after a failure, becomes ready. It looks at no more than maxBatch places before others have the mutex.
func (s *shard[L]) nearLocked(l *load[L], now moment, looks int) int {
	for ; looks < maxBatch && s.near.Len() > 0; looks++ {
		t, _ := s.near.Min()
		e := s.entries.at(t.id)
		renew, until := e.renews(), now
		if renew && looks > 0 {
			until += int64(e.lease.Interval() / batchWindow)
		}
		if t.at > until {
			break
		}
		s.near.DeleteMin()
		e.at = never
		switch {
		case e.planned() > until: // it was renewed
			s.planLocked(t.id, e)
		case renew:
			s.readyLocked(t.id, e)
			s.planLocked(t.id, e)
		default:
			l.items = append(l.items, item[L]{e.lease, s, t.id, false, false, now})
		}
	}
	return looks
}

// ask asks the leases what they need, ends those whose validity is over, and returns those that are to be renewed.
func (w *Watchdog[L]) ask(so sort, due []item[L]) *batch[L] {
	b := &batch[L]{
		start: time.Now(), sort: so, items: make([]item[L], 0, len(due)), renewals: make([]lock.Renewal, 0, len(due)),
	}
	for len(due) > 0 {
		n := min(len(due), askedAtOnce)
		w.askSome(b, due[:n])
		due = due[n:]
	}
	return b
}

// end is the end of a call. If the call was for hurried leases, others can have their turn.
func (w *Watchdog[L]) end(b *batch[L]) {
	w.landed(b, b.under)
	if b.hurried {
		w.hurried[b.sort].Add(-1)
		w.rouse()
	}
}

// weight is what the renewal with an index counts for in Watchdog.underWay: nothing if it only verifies.
func (b *batch[L]) weight(i int) int {
	if b.sort == alone {
		return 0
	}
	return lock.Weight(b.renewals[i].Kind, b.renewals[i].Permits)
}

// landed notes that the outcomes of leases of a batch, which cost cost, are known. The rest of the batch may wait for a
// slow server, which must not keep leases of other servers from being renewed.
func (w *Watchdog[L]) landed(b *batch[L], cost int) {
	b.under -= cost
	n := int64(cost)
	if left := w.underWay.Add(-n); left < maxUnderWay && left+n >= maxUnderWay {
		w.rouse()
	}
}

func (w *Watchdog[L]) askSome(b *batch[L], due []item[L]) {
	ls, until := make([]L, len(due)), make([]time.Time, len(due))
	for i := range due {
		ls[i] = due[i].lease
	}
	at := len(b.renewals)
	rs := b.renewals[at : at+len(due)]
	ls[0].Renewals(b.start, ls, rs, until)
	b.renewals = b.renewals[:at]
	for i, d := range due {
		d.shard.add(b, d, rs[i], until[i])
	}
}

// add adds a lease to a batch if it is to be renewed, and plans what comes next; or ends it if its validity is over.
func (s *shard[L]) add(b *batch[L], d item[L], r lock.Renewal, until time.Time) {
	w := s.w
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries.at(d.id)
	if e.lease != d.lease || until.IsZero() { // it was dropped, or is about to be
		return
	}
	if !until.After(b.start) {
		s.dropLocked(d.lease)
		w.lose(d.lease)
		return
	}
	e.until = w.moment(until)
	if d.renew && !e.busy {
		e.busy = true
		if d.hurried && !b.hurried {
			b.hurried = true
			w.hurried[b.sort].Add(1)
		}
		b.items, b.renewals = append(b.items, d), append(b.renewals, r)
		w.metrics.lateness.Observe(max(b.start.Sub(w.epoch)-time.Duration(d.planned), 0).Seconds())
		w.metrics.remaining.Observe(until.Sub(b.start).Seconds() / (d.lease.Interval().Seconds() * 3))
	}
	s.planLocked(d.id, e)
}

// outcome is that of one renewal of a batch.
type outcome struct {
	i   int
	err error
}

// renew sends renewals, in a goroutine of their own. Outcomes that come together are noted together.
func (w *Watchdog[L]) renew(b *batch[L]) {
	if len(b.items) == 0 {
		return
	}
	for i := range b.items {
		b.under += b.weight(i)
	}
	w.underWay.Add(int64(b.under))
	outcomes := make(chan outcome, min(len(b.items), 2*askedAtOnce))
	w.wg.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, callTimeout)
		defer cancel()
		w.store.Renew(ctx, b.renewals, func(i int, err error) { outcomes <- outcome{i, err} })
		close(outcomes)
	})
	w.wg.Go(func() {
		for first := range outcomes {
			w.note(b, first, outcomes)
		}
		w.end(b)
	})
}

// note notes an outcome, and some of those that are there by now.
func (w *Watchdog[L]) note(b *batch[L], o outcome, more <-chan outcome) {
	var renewed [askedAtOnce]int
	n, known := 0, 0
	for {
		known += b.weight(o.i)
		if o.err == nil {
			renewed[n] = o.i
			n++
		} else {
			w.failed(b, o)
		}
		if n == len(renewed) || len(more) == 0 {
			break
		}
		o = <-more
	}
	if n > 0 {
		w.renewed(b, renewed[:n])
	}
	w.landed(b, known)
}

// renewed notes leases that were renewed.
func (w *Watchdog[L]) renewed(b *batch[L], which []int) {
	n := len(which)
	ls, rs, until := make([]L, n), make([]lock.Renewal, n), make([]time.Time, n)
	for k, i := range which {
		ls[k], rs[k] = b.items[i].lease, b.renewals[i]
	}
	ls[0].Renewed(b.start, ls, rs, until)
	w.metrics.renewed.Add(float64(n))
	for k, i := range which {
		b.done(i, until[k], b.items[i].lease.Interval())
	}
}

// failed notes a renewal that failed. A lease that is gone is lost.
func (w *Watchdog[L]) failed(b *batch[L], o outcome) {
	l := b.items[o.i].lease
	if gone, ok := errors.AsType[*lock.GoneError](o.err); ok && !l.Reduced(b.start) {
		w.metrics.gone.Inc()
		w.Drop(l)
		l.Lose(gone.Reason)
		return
	}
	w.metrics.failed.Inc()
	w.log.Debug("renewal failed", zap.String(observe.KeyName, l.Name()), zap.Error(o.err))
	var r [1]lock.Renewal
	var until [1]time.Time
	l.Renewals(time.Now(), []L{l}, r[:], until[:])
	b.done(o.i, until[0], l.Interval()/retries)
}

// done plans what comes after a renewal: the next one after a pause, unless that is up to the group's next round.
func (b *batch[L]) done(i int, until time.Time, pause time.Duration) {
	id, l, s := b.items[i].id, b.items[i].lease, b.items[i].shard
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries.at(id)
	if e.lease != l || until.IsZero() {
		return
	}
	again := e.again
	e.busy, e.again, e.until = false, false, s.w.moment(until)
	if e.renewAt = s.w.moment(b.start) + int64(pause); e.group != 0 && pause == l.Interval() {
		e.renewAt = never
	}
	if again {
		s.hurryLocked(id, e)
	}
	s.planLocked(id, e)
}
