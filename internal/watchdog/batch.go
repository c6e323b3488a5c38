package watchdog

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// askedAtOnce is how many leases are asked, or told, something at once, while others wait for their mutex.
const askedAtOnce = 64

// item is a lease that is looked at.
type item[L any] struct {
	lease   L
	id      uint32
	renew   bool   // else its validity may be over
	hurried bool   // was in Watchdog.ready
	planned moment // when it was to be renewed
}

// batch is what one call renews. It is used again when all outcomes are known.
type batch[L any] struct {
	start    time.Time
	items    []item[L]
	renewals []lock.Renewal
	hurried  bool // counts in Watchdog.hurried
}

// due takes what is to be looked at now. Renewals that come soon are taken along. The loop alone calls it, and uses one list
// for that again and again.
func (w *Watchdog[L]) due() (due []item[L]) {
	clear(w.list)
	due = w.list[:0]
	defer func() { w.list = due }()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for len(w.ready) > 0 && w.hurried < maxHurried && len(due) < maxBatch {
		id := w.ready[0]
		if w.ready = w.ready[1:]; len(w.ready) == 0 {
			w.ready = nil
		}
		switch e := w.entries.at(id); {
		case !e.ready:
		case e.busy: // that was about to begin when it was hurried
			e.ready, e.again = false, true
		default:
			e.ready = false
			due = append(due, item[L]{e.lease, id, true, true, now})
		}
	}
	for len(w.wheel.near) > 0 && len(due) < maxBatch {
		i, known, now := w.nearestLocked(now, len(due) > 0)
		if !now {
			break
		}
		w.wheel.near.pop()
		switch e := w.entries.at(i.id); {
		case !known:
		case i.renew && e.group != 0: // once more after a failure
			e.renewAt = never
			w.hurryLocked(i.id, e)
			w.planLocked(i.id, e)
		default:
			due = append(due, i)
		}
	}
	for len(w.rounds) > 0 && w.rounds[0].at <= now && len(due) < maxBatch {
		r := w.rounds.pop()
		if g := w.groups[r.id]; g != nil && g.at == r.at {
			due = w.takePieceLocked(due, r, now)
		}
	}
	return due
}

// nearestLocked is the first entry of those that are near, unless it is not known there any more, and says whether it is to
// be looked at now.
func (w *Watchdog[L]) nearestLocked(now moment, share bool) (i item[L], known, due bool) {
	t := w.wheel.near[0]
	e := w.entries.at(t.id)
	if e.slot != outside || e.at != t.at {
		return i, false, true
	}
	if renewal := !e.busy && e.renewAt < e.until; renewal && share {
		now += int64(e.lease.Interval() / batchWindow)
	}
	return item[L]{e.lease, t.id, !e.busy && e.renewAt <= now, false, e.renewAt}, true, t.at <= now
}

// takePieceLocked adds a piece of a group's round. A lease that is being renewed anyway is so once more if the round
// follows a sign of life.
func (w *Watchdog[L]) takePieceLocked(due []item[L], r timed, now moment) []item[L] {
	heard := w.groups[r.id].heard
	for _, id := range w.pieceLocked(r.id, now) {
		e := w.entries.at(id)
		if e.busy {
			e.again = e.again || heard
			continue
		}
		due = append(due, item[L]{e.lease, id, true, false, r.at})
	}
	return due
}

// ask asks the leases what they need. Those whose validity is over are lost, those that are to be renewed are what it
// returns.
func (w *Watchdog[L]) ask(due []item[L]) *batch[L] {
	b := w.batchFor(len(due))
	b.start = time.Now()
	for len(due) > 0 {
		n := min(len(due), askedAtOnce)
		w.askSome(b, due[:n])
		due = due[n:]
	}
	return b
}

// batchFor is an empty batch with room for so many leases.
func (w *Watchdog[L]) batchFor(leases int) *batch[L] {
	b, _ := w.batches.Get().(*batch[L])
	if b == nil || cap(b.items) < leases {
		b = &batch[L]{items: make([]item[L], 0, leases), renewals: make([]lock.Renewal, 0, leases)}
	}
	return b
}

// giveBack lets a batch be used again. If leases were hurried, others are.
func (w *Watchdog[L]) giveBack(b *batch[L]) {
	if b.hurried {
		b.hurried = false
		w.mu.Lock()
		w.hurried--
		if len(w.ready) > 0 {
			w.wakeLocked(0)
		}
		w.mu.Unlock()
	}
	clear(b.items)
	clear(b.renewals)
	b.items, b.renewals = b.items[:0], b.renewals[:0]
	w.batches.Put(b)
}

func (w *Watchdog[L]) askSome(b *batch[L], due []item[L]) {
	var leases [askedAtOnce]L
	var until [askedAtOnce]time.Time
	ls := leases[:len(due)]
	for i := range due {
		ls[i] = due[i].lease
	}
	at := len(b.renewals)
	rs := b.renewals[at : at+len(due)]
	ls[0].Renewals(b.start, ls, rs, until[:len(due)])
	b.renewals = b.renewals[:at]
	for _, l := range w.judge(b, due, rs, until[:len(due)]) {
		l.Lose(lock.LostExpired)
	}
}

// judge adds to a batch what is to be renewed, plans the rest, and returns what is over.
func (w *Watchdog[L]) judge(b *batch[L], due []item[L], rs []lock.Renewal, until []time.Time) (over []L) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, d := range due {
		e := w.entries.at(d.id)
		if e.lease != d.lease || until[i].IsZero() { // it was dropped, or is about to be
			continue
		}
		if !until[i].After(b.start) {
			w.dropLocked(d.lease)
			over = append(over, d.lease)
			continue
		}
		e.until = w.moment(until[i])
		if d.renew && !e.busy {
			e.busy = true
			if d.hurried && !b.hurried {
				b.hurried = true
				w.hurried++
			}
			b.items, b.renewals = append(b.items, d), append(b.renewals, rs[i])
			w.metrics.lateness.Observe(max(b.start.Sub(w.epoch)-time.Duration(d.planned), 0).Seconds())
			w.metrics.remaining.Observe(until[i].Sub(b.start).Seconds() / (d.lease.Interval().Seconds() * 3))
		}
		w.planLocked(d.id, e)
	}
	return over
}

// outcome is that of one renewal of a batch.
type outcome struct {
	i   int
	err error
}

// renew sends renewals, in a goroutine of their own. Outcomes are taken note of together as far as they come together.
func (w *Watchdog[L]) renew(b *batch[L]) {
	if len(b.items) == 0 {
		w.giveBack(b)
		return
	}
	outcomes := make(chan outcome, len(b.items)) // never full
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
		w.giveBack(b)
	})
}

// note takes note of an outcome and of some that are there by now.
func (w *Watchdog[L]) note(b *batch[L], o outcome, more <-chan outcome) {
	var renewed [askedAtOnce]int
	n := 0
	for {
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
}

// renewed takes note of leases that were renewed.
func (w *Watchdog[L]) renewed(b *batch[L], which []int) {
	var leases [askedAtOnce]L
	var renewals [askedAtOnce]lock.Renewal
	var until [askedAtOnce]time.Time
	n := len(which)
	for k, i := range which {
		leases[k], renewals[k] = b.items[i].lease, b.renewals[i]
	}
	leases[0].Renewed(b.start, leases[:n], renewals[:n], until[:n])
	w.metrics.renewed.Add(float64(n))
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, i := range which {
		w.doneLocked(b, i, until[k], int64(leases[k].Interval()))
	}
}

// failed takes note of a renewal that failed. A lease that is gone is lost.
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
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doneLocked(b, o.i, until[0], int64(l.Interval()/retries))
}

// doneLocked plans what comes after a renewal: the next one after a pause, unless the group's next round is that.
func (w *Watchdog[L]) doneLocked(b *batch[L], i int, until time.Time, pause moment) {
	id, l := b.items[i].id, b.items[i].lease
	e := w.entries.at(id)
	if e.lease != l || until.IsZero() {
		return
	}
	again := e.again
	e.busy, e.again, e.until = false, false, w.moment(until)
	if e.renewAt = w.moment(b.start) + pause; e.group != 0 && pause == int64(l.Interval()) {
		e.renewAt = never
	}
	if again {
		w.hurryLocked(id, e)
	}
	w.planLocked(id, e)
}
