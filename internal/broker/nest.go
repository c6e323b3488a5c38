package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A named holder may take once more what it holds: it nests. The counts are kept here and are absolute in the store. A
// nested hold that was taken there, but not told, is therefore undone by any later operation of the lease.

// nestLocked holds a lock once more for a holder that has it. The request is in no queue.
func (b *Broker) nestLocked(l *Lease, w *waiter) {
	w.apart, w.q = true, l.q
	b.boundLocked(w)
	asked := time.Now()
	l.doLocked(func() { b.nowNestLocked(l, w, asked) })
}

// renestLocked is nestLocked for a request that waits, or was tried: its holder has by now what it asks for.
func (b *Broker) renestLocked(l *Lease, w *waiter) {
	req := request.Acquire{Name: l.name, Kind: l.kind, Holder: l.holder, Annotation: w.annotation}
	if !w.auto {
		req.Lease = new(w.lease)
	}
	again := w.sess.newWaiter(w.id, req)
	again.Since, again.waited, again.Wait = w.Since, w.waited, w.Wait
	again.Unsure = w.Unsure || w.Asking()
	again.span, w.span = w.span, untraced{}
	b.removeLocked(w)
	_ = w.sess.Wait(w.id, again, session.Want{}) // a session that has ended is not answered
	if again.Wait != arbiter.Forever {
		b.timeLocked(again)
	}
	b.nestLocked(l, again)
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
	w.Unsure = false
	c := l.nestedLocked(w)
	done := l.prolongingLocked(c.TTL)
	l.unlock()
	a := b.insist(b.attempt(attempt{claim: c}))
	l.lock()
	w.span.Asked(a.start, a.end, a.err)
	w.Ended()
	if w.Answered() && a.err == nil {
		done(lock.ErrOutcomeUnknown)
		b.unnestLocked(l)
		return
	}
	done(a.err)
	b.concludeNestLocked(l, w, a)
}

// nestedLocked is the claim of one hold more.
func (l *Lease) nestedLocked(w *waiter) lock.Claim {
	w.Begin()
	ttl := max(w.ttl(time.Now()), time.Millisecond)
	return lock.Claim{Name: l.name, Kind: l.kind, Owner: l.owner, Count: l.count + 1, Fence: l.fence, TTL: ttl}
}

func (b *Broker) concludeNestLocked(l *Lease, w *waiter, a attempt) {
	err := a.err
	if !l.over && (errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrStale) || errors.Is(err, lock.ErrHeld)) {
		l.verifyGoneLocked()
	}
	switch {
	case w.Answered():
	case l.over:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: session.ErrLost})
	case err != nil:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	default:
		w.spanGranted(l.fence)
		b.removeLocked(w)
		l.q.shard.figures.granted[l.kind]++
		l.onceMoreLocked(a.until(), w.auto)
		l.seen = max(l.seen, b.stamp(a.start))
		s := l.sess
		l.keepLocked()
		s.ConcludeUntil(w.id, w, l.until, func(v session.Validity) session.Event {
			return session.Granted{ID: w.id, Hold: l.hold(), Validity: v, Count: l.count, Auto: l.auto}
		})
	}
}

// unnestLocked sets the count in the store right after a nested hold that came too late to be told. What fails is left
// to the next operation of the lease.
func (b *Broker) unnestLocked(l *Lease) {
	if l.over {
		return
	}
	r := l.returnAll()
	r.Remaining = l.count
	l.unlock()
	_, err := b.store.Release(b.ctx, r)
	l.lock()
	l.own().lateReturn = l.lateReturn || errors.Is(err, lock.ErrOutcomeUnknown)
}

// ordinaryLocked has a request that stood in no queue go its way: what it came instead of is undone, or the lease it
// was to nest in has ended. What an earlier attempt of it may have taken is being released, so its owner cannot be used
// once more.
func (b *Broker) ordinaryLocked(w *waiter) {
	w.apart = false
	if w.Unsure {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: session.ErrLost})
		return
	}
	if err := w.sess.routeLocked(w); err != nil {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	}
}

// tooOld says whether an operation of a lease waited for so long that it is not begun any more. Else many of them could
// keep a release waiting without a bound while the store is silent.
func (b *Broker) tooOld(asked time.Time) bool { return time.Since(asked) > b.cfg.AnswerTime }
