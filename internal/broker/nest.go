package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A named holder may take once more what it holds: it nests. How often it does is counted here. The store knows one
// hold, which lasts as long as the longest lease that was asked for.

// nestLocked holds a lock once more for a holder that has it. The request is in no queue.
func (b *Broker) nestLocked(l *Lease, w *waiter) {
	w.apart, w.q = true, l.q
	if len(l.ops) == 0 && l.lackingLocked(w) == 0 {
		b.nowNestLocked(l, w, time.Now())
		return
	}
	b.boundLocked(w)
	asked := time.Now()
	l.doLocked(func() { b.nowNestLocked(l, w, asked) })
}

// renestLocked is nestLocked for a request that stood in its queue: its holder has by now what it asks for.
func (b *Broker) renestLocked(l *Lease, w *waiter) {
	b.outOfQueueLocked(w)
	_ = w.sess.Wait(w.id, w, session.Want{}) // a session that has ended withdraws it
	b.nestLocked(l, w)
}

// nowNestLocked runs as an operation of the lease.
func (b *Broker) nowNestLocked(l *Lease, w *waiter, asked time.Time) {
	switch {
	case w.Answered(): // at its bound, or cancelled
		return
	case l.over:
		b.ordinaryLocked(w)
		return
	case b.tooOld(asked):
		b.refuseLocked(w, session.Failed{ID: w.id, Err: lock.ErrUnavailable})
		return
	case l.count >= lock.MaxHolds:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: b.metrics.denied("holds", lock.MaxHolds)})
		return
	}
	var err error
	if ttl := l.lackingLocked(w); ttl > 0 {
		err = b.outlastNestedLocked(l, w, ttl)
	}
	switch {
	case w.Answered():
	case l.over:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: session.ErrLost})
	case err != nil:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	default:
		b.nestedLocked(l, w)
	}
}

// lackingLocked is how long the store has to keep a hold from now on for one request more, 0 if it does so anyway.
func (l *Lease) lackingLocked(w *waiter) time.Duration {
	now := time.Now()
	ttl := max(w.ttl(now), time.Millisecond)
	renewed := w.auto && l.auto && now.Before(l.until)
	lasts := renewed || !now.Add(ttl-margin(ttl)).After(l.until)
	// The replica that the session left may be releasing it: the store is asked for what came from there.
	if lasts && !now.Before(l.sess.Settled()) {
		return 0
	}
	return ttl
}

// outlastNestedLocked has a hold last so long from now. The mutex is free meanwhile.
func (b *Broker) outlastNestedLocked(l *Lease, w *waiter, ttl time.Duration) error {
	r := l.verification()
	r.TTL = ttl
	l.own().extended = true
	start := time.Now()
	l.unlock()
	end, err := b.extendOne(b.ctx, r, false)
	l.lock()
	w.span.Asked(start, time.Now(), err)
	if w.Answered() && err == nil { // the client does not count on it
		err = lock.ErrOutcomeUnknown
	}
	gone, is := errors.AsType[*lock.GoneError](err)
	switch {
	case l.over:
	case is:
		l.loseLocked(gone.Reason)
	case err == nil:
		l.seen = max(l.seen, b.stamp(start))
		l.lastLocked(end)
	}
	return err
}

// nestedLocked grants a request one more hold of its holder.
func (b *Broker) nestedLocked(l *Lease, w *waiter) {
	w.spanGranted(l.fence)
	b.removeLocked(w)
	b.metrics.granted[l.kind].Inc()
	l.count++
	l.auto = l.auto || w.auto
	l.keepLocked()
	until := session.Validity{Until: l.until}
	l.sess.Conclude(w.id, w, session.Granted{ID: w.id, Hold: l.Hold(), Validity: until, Count: l.count, Auto: l.auto})
}

// ordinaryLocked has a request that stood in no queue go its way: what it came instead of is undone, or the lease it
// was to nest in has ended.
func (b *Broker) ordinaryLocked(w *waiter) {
	if err := w.sess.routeLocked(w); err != nil {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	}
}

// tooOld says whether an operation of a lease waited for so long that it is not begun any more. Else many of them could
// keep a release waiting without a bound while the store is silent.
func (b *Broker) tooOld(asked time.Time) bool { return time.Since(asked) > b.cfg.AnswerTime }
