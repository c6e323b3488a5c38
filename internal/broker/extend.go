package broker

import (
	"context"
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// extension is an Extend under way.
type extension struct {
	l       *Lease
	id      uint64
	auto    bool // what the lease is to be
	shorten bool
	r       lock.Renewal
	was     time.Time // the validity before
}

// Extend sets how long a lease lasts from now, and whether it is renewed. The lease never ends earlier than without the
// request, unless the request may shorten it, and never after its max_hold. The answer is Extended or Failed. Repeating
// it is harmless.
//
// After an unknown outcome the lease has its old mode, and ends somewhere between its old and its new end. The client
// counts on the earlier one only.
func (s *Session) Extend(id uint64, req request.Extend) {
	s.withLease(id, req.Hold, s.b.rules.Lease(req.Lease), func(l *Lease) error {
		asked := time.Now()
		return l.requestLocked(func() { s.b.extendLocked(l, id, req, asked) })
	})
}

// extendLocked runs as an operation of the lease. It needs no goroutine unless it may shorten the lease or the store
// does not answer: thousands of goroutines would be in the way of all others.
func (b *Broker) extendLocked(l *Lease, id uint64, req request.Extend, asked time.Time) {
	unsettled := time.Until(l.sess.Settled())
	switch {
	case l.over:
		l.sess.Fail(id, lock.ErrNotHeld)
		l.opOverLocked()
	case b.tooOld(asked):
		l.sess.Fail(id, lock.ErrUnavailable)
		l.opOverLocked()
	case req.MayShorten && unsettled > 0:
		b.goTaking(func() {
			lock.Pause(b.ctx, unsettled)
			l.lock()
			defer l.unlock()
			b.extendLocked(l, id, req, time.Now())
		})
	default:
		e := l.extensionLocked(id, req)
		b.startExtending(e.r, e.shorten, func(end time.Time, err error) {
			l.lock()
			defer l.unlock()
			b.extendedLocked(e, end, err)
			l.opOverLocked()
		})
	}
}

// startExtending is extendOne that tells done, and ordinarily needs no goroutine.
func (b *Broker) startExtending(r lock.Renewal, shorten bool, done func(end time.Time, err error)) {
	if shorten {
		b.goTaking(func() { done(b.extendOne(b.ctx, r, true)) })
		return
	}
	b.beginTaking()
	start := time.Now()
	b.store.StartExtend(r, func(left time.Duration, err error) {
		defer b.endTaking()
		if !errors.Is(err, lock.ErrOutcomeUnknown) {
			done(trusted(start, left), err)
			return
		}
		b.goTaking(func() {
			var end time.Time
			err := lock.Again(err, b.extending(b.ctx, r, false, &end))
			done(end, err)
		})
	})
}

// extensionLocked begins an extension. If it may shorten the lease, the earlier end counts from here on.
func (l *Lease) extensionLocked(id uint64, req request.Extend) extension {
	e := extension{
		l: l, id: id, auto: req.Lease == nil, shorten: req.MayShorten, was: l.until, r: l.verification(),
	}
	if e.auto {
		e.r.TTL = max(time.Until(l.sess.AutoEnd()), time.Millisecond)
	} else {
		e.r.TTL = *req.Lease
	}
	e.r.TTL = l.most.within(e.r.TTL, time.Now())
	l.own().extended = true
	if !e.shorten {
		return e
	}
	l.changedLocked()
	l.own().shortening = true
	if until := l.most.last(trusted(time.Now(), e.r.TTL)); until.Before(l.until) {
		l.until = until
	}
	l.keepLocked()
	return e
}

// extendedLocked notes the outcome of an extension, with the end of the new validity, and answers.
func (b *Broker) extendedLocked(e extension, end time.Time, err error) {
	l, s := e.l, e.l.sess
	if e.shorten {
		l.own().shortening = false
	}
	var gone *lock.GoneError
	switch {
	case l.over:
		s.Fail(e.id, lock.ErrNotHeld)
	case err == nil:
		l.changeLocked(e, end)
		b.keeper.Keep(l, l.until)
		s.TellChanged(l, session.Extended{ID: e.id, Validity: s.Validity(l.Terms())})
	case errors.As(err, &gone):
		l.loseLocked(gone.Reason)
		s.Fail(e.id, lock.ErrNotHeld)
	default:
		if e.shorten {
			l.notShortenedLocked(e, err)
		}
		s.Fail(e.id, err)
	}
}

// changeLocked notes an extension that was done. A renewal that was under way meanwhile may have come to the store
// after it: what that set is not trusted, and undone at the end of the lease.
func (l *Lease) changeLocked(e extension, end time.Time) {
	if e.shorten || l.auto && !e.auto {
		l.changedLocked()
	}
	if e.shorten {
		l.until = l.most.last(end)
	} else {
		l.lastLocked(end)
	}
	l.auto = e.auto
}

// lastLocked prolongs the validity to until, but not beyond the max_hold. It never shortens it.
func (l *Lease) lastLocked(until time.Time) {
	if until = l.most.last(until); until.After(l.until) {
		l.until = until
	}
}

// notShortenedLocked notes a shortening that was not done. If nobody knows, the earlier end stays. An auto lease is
// renewed at once, which makes its end sure again.
func (l *Lease) notShortenedLocked(e extension, err error) {
	l.own().changed = time.Now() // the renewal that follows counts
	if !errors.Is(err, lock.ErrOutcomeUnknown) {
		l.until = e.was
	}
	l.keepLocked()
	if l.auto {
		l.b.keeper.Hurry(l)
	}
}

// changedLocked has no renewal count that began until now. One that began in this instant may have begun before.
func (l *Lease) changedLocked() { l.own().changed = time.Now().Add(time.Nanosecond) }

// extendOne prolongs or shortens one hold, and returns until when it can be trusted. It asks once more if the store
// does not answer.
func (b *Broker) extendOne(ctx context.Context, r lock.Renewal, shorten bool) (end time.Time, err error) {
	err = lock.Twice(b.extending(ctx, r, shorten, &end))
	return end, err
}

// extending is a call that prolongs or shortens one hold, and says until when it can then be trusted.
func (b *Broker) extending(ctx context.Context, r lock.Renewal, shorten bool, end *time.Time) func() error {
	return func() (err error) {
		start, left := time.Now(), r.TTL
		if shorten {
			err = b.store.Shorten(ctx, r)
		} else {
			left, err = lock.Await(ctx, b.store.StartExtend, r)
		}
		*end = trusted(start, left)
		return err
	}
}
