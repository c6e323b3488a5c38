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
	switch ttl := l.lackingLocked(w); {
	case w.Answered(): // at its bound, or cancelled
	case l.over:
		b.ordinaryLocked(w)
	case b.tooOld(asked):
		b.refuseLocked(w, session.Failed{ID: w.id, Err: lock.ErrUnavailable})
	case l.count >= lock.MaxHolds:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: b.metrics.denied("holds", lock.MaxHolds)})
	case ttl > 0:
		b.outlastLocked(l, w, ttl)
		return
	default:
		b.nestedLocked(l, w)
	}
	l.opOverLocked()
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

// outlastLocked has a hold last so long from now, and then goes on with the operation.
func (b *Broker) outlastLocked(l *Lease, w *waiter, ttl time.Duration) {
	r, start := l.verification(), time.Now()
	r.TTL = ttl
	l.own().extended = true
	b.startExtending(r, false, func(end time.Time, err error) {
		l.lock()
		defer l.unlock()
		w.span.Asked(start, time.Now(), err)
		if !l.over {
			b.outlastedLocked(l, w, start, end, err)
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
		l.opOverLocked()
	})
}

// outlastedLocked notes the outcome of that.
func (b *Broker) outlastedLocked(l *Lease, w *waiter, start, end time.Time, err error) {
	if gone, is := errors.AsType[*lock.GoneError](err); is {
		l.loseLocked(gone.Reason)
	}
	if err == nil && !w.Answered() { // else the client does not count on it
		l.seen = max(l.seen, b.stamp(start))
		l.lastLocked(end)
	}
}

// nestedLocked grants a request one more hold of its holder.
func (b *Broker) nestedLocked(l *Lease, w *waiter) {
	w.spanGranted(l.fence)
	b.removeLocked(w)
	b.metrics.granted[l.kind].Inc()
	l.count++
	l.auto = l.auto || w.auto
	l.keepLocked()
	l.sess.Conclude(w.id, w, session.Granted{
		ID: w.id, Hold: l.Hold(), Validity: l.sess.Validity(l.until), Count: l.count, Auto: l.auto,
	})
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
