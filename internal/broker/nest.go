package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A named holder may take once more what it holds: it nests. The counts are kept here and are absolute in the store. A
// nested hold that was taken there, but not told, is therefore undone by any later operation of the lease.

// nestLocked holds a lock once more for a holder that has it. The request is in no queue.
func (b *Broker) nestLocked(l *Lease, w *waiter) {
	w.nests, w.q = true, l.q
	b.boundLocked(w)
	asked := time.Now()
	l.doLocked(func() { b.nest(l, w, asked) })
}

// renestLocked is nestLocked for a request that waits, or was tried: its holder has by now what it asks for.
func (b *Broker) renestLocked(l *Lease, w *waiter) {
	req := AcquireRequest{Name: l.name, Kind: l.kind, Holder: l.holder, Annotation: w.annotation}
	if !w.auto {
		req.Lease = new(w.lease)
	}
	again := w.sess.waiterLocked(w.id, req)
	again.since, again.wait, again.try = w.since, w.wait, w.try
	again.outcomeUnknown = w.outcomeUnknown || w.trying
	b.removeLocked(w)
	if again.wait != forever {
		b.timeLocked(again)
	}
	b.nestLocked(l, again)
}

// nest runs as an operation of the lease.
func (b *Broker) nest(l *Lease, w *waiter, asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case w.gone: // answered at its bound
		return
	case l.over:
		b.ordinaryLocked(w)
		return
	case b.tooOld(asked):
		b.refuseLocked(w, Failed{ID: w.id, Err: lock.ErrUnavailable})
		return
	case l.count >= lock.MaxHolds:
		b.refuseLocked(w, Failed{ID: w.id, Err: b.metrics.denied("holds", lock.MaxHolds)})
		return
	}
	w.trying, w.outcomeUnknown = true, false
	c := l.nestedLocked(w)
	done := l.prolongingLocked(c.TTL)
	b.mu.Unlock()
	a := b.insist(b.attempt(attempt{claim: c}))
	b.mu.Lock()
	w.trying = false
	if w.gone && a.err == nil {
		done(lock.ErrOutcomeUnknown)
		b.unnestLocked(l)
		return
	}
	done(a.err)
	b.concludeNestLocked(l, w, a)
}

// nestedLocked is the claim of one hold more.
func (l *Lease) nestedLocked(w *waiter) lock.Claim {
	c := lock.Claim{Name: l.name, Kind: l.kind, Owner: l.owner, Count: l.count + 1, Fence: l.fence, TTL: w.lease}
	if w.auto {
		c.TTL = max(w.ttlLocked(time.Now()), time.Millisecond)
	}
	return c
}

func (b *Broker) concludeNestLocked(l *Lease, w *waiter, a attempt) {
	err := a.err
	if !l.over && (errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrStale) || errors.Is(err, lock.ErrHeld)) {
		l.verifyGoneLocked()
	}
	switch {
	case w.gone:
	case l.over:
		b.refuseLocked(w, Failed{ID: w.id, Err: ErrLost})
	case err != nil:
		b.refuseLocked(w, Failed{ID: w.id, Err: err})
	default:
		b.removeLocked(w)
		b.metrics.grants[l.kind].Inc()
		l.onceMoreLocked(a.until(), w.auto)
		l.seen = max(l.seen, b.stamp(a.start))
		s := l.sess
		l.keepLocked()
		s.emitLocked(Granted{ID: w.id, Hold: l.hold(), Validity: s.validityLocked(l.until), Count: l.count, Auto: l.auto})
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
	b.mu.Unlock()
	_, _ = b.store.Release(b.ctx, r)
	b.mu.Lock()
}

// ordinaryLocked makes an ordinary request of a nested one: the lease ended meanwhile. What an earlier attempt of it may
// have taken is being released, so its owner cannot be used once more.
func (b *Broker) ordinaryLocked(w *waiter) {
	w.nests = false
	switch {
	case w.sess.ended:
		b.removeLocked(w)
	case w.outcomeUnknown:
		b.refuseLocked(w, Failed{ID: w.id, Err: ErrLost})
	default:
		if err := w.sess.routeLocked(w); err != nil {
			b.refuseLocked(w, Failed{ID: w.id, Err: err})
		}
	}
}

// tooOld says whether an operation of a lease waited for so long that it is not begun any more. Else many of them could
// keep a release waiting without a bound while the store is silent.
func (b *Broker) tooOld(asked time.Time) bool { return time.Since(asked) > b.cfg.AnswerTime }
