package broker

import (
	"errors"
	"slices"
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
	was     time.Time   // the validity before
	levels  []level     // before
	end     time.Time   // until when the last store call has the hold last
	noted   func(error) // from prolongingLocked
}

// Extend sets how long a lease lasts from now, and whether it is renewed. It never ends earlier than it would have done
// without the request, unless that may shorten it. The answer is Extended or Failed. Repeating it is harmless.
//
// With an unknown outcome the lease is what it was, and ends somewhere between its old and its new time. The client
// counts with the earlier one.
func (s *Session) Extend(id uint64, req request.Extend) {
	s.withLease(id, req.Hold, s.b.rules.Lease(req.Lease), func(l *Lease) error {
		if len(l.ops) > 0 || req.MayShorten {
			asked := time.Now()
			return l.requestLocked(func() {
				if left := time.Until(s.settled); req.MayShorten && left > 0 {
					s.b.pause(left)
					asked = time.Now()
				}
				s.b.extend(l, id, req, asked)
			})
		}
		err := s.Operable()
		if err == nil {
			err = s.b.startExtendLocked(l, id, req)
		}
		return err
	})
}

// extend runs as an operation of the lease.
func (b *Broker) extend(l *Lease, id uint64, req request.Extend, asked time.Time) {
	l.lock()
	if !l.over && b.tooOld(asked) {
		l.unlock()
		l.sess.Fail(id, lock.ErrUnavailable)
		return
	}
	e, err := l.extensionLocked(id, req)
	l.unlock()
	if err == nil {
		e.end, err = b.extendOne(e.r, e.shorten)
	}
	l.lock()
	defer l.unlock()
	b.extendedLocked(e, err)
}

// startExtendLocked is extend for the ordinary case: nothing else is under way for the lease. It needs no goroutine
// unless the store does not answer: thousands of them would stand in the way of all others.
func (b *Broker) startExtendLocked(l *Lease, id uint64, req request.Extend) error {
	e, err := l.extensionLocked(id, req)
	if err != nil {
		return err
	}
	l.enterOpLocked()
	b.wg.Add(1)
	start := time.Now()
	b.store.StartExtend(e.r, func(left time.Duration, err error) {
		defer b.wg.Done()
		if errors.Is(err, lock.ErrOutcomeUnknown) {
			b.wg.Go(func() {
				e.end, err = b.extendAgain(e.r, false)
				b.extended(e, err)
			})
			return
		}
		e.end = start.Add(left - margin(left))
		b.extended(e, err)
	})
	return nil
}

func (b *Broker) extended(e extension, err error) {
	e.l.lock()
	defer e.l.unlock()
	b.extendedLocked(e, err)
	e.l.leaveOpLocked()
}

// extensionLocked begins an extension.
func (l *Lease) extensionLocked(id uint64, req request.Extend) (extension, error) {
	e := extension{
		l: l, id: id, auto: req.Lease == nil, shorten: req.MayShorten, was: l.until, levels: slices.Clone(l.levels),
		noted: func(error) {},
		r:     l.verification(),
	}
	if l.over {
		return e, lock.ErrNotHeld
	}
	if e.auto {
		e.r.TTL = max(time.Until(l.sess.AutoEnd()), time.Millisecond)
	} else {
		e.r.TTL = *req.Lease
	}
	if e.shorten {
		l.shorteningLocked(e)
	}
	e.noted = l.prolongingLocked(e.r.TTL)
	return e, nil
}

// shorteningLocked notes a call that may shorten the lease: from here on the earlier end counts.
func (l *Lease) shorteningLocked(e extension) {
	l.outlastLocked()
	l.own().shortening = true
	if until := time.Now().Add(e.r.TTL - margin(e.r.TTL)); until.Before(l.until) {
		l.until = until
		for i := range l.levels {
			if l.levels[i].until.After(until) {
				l.levels[i].until = until
			}
		}
	}
	l.keepLocked()
}

// extendedLocked notes the outcome of an extension and answers.
func (b *Broker) extendedLocked(e extension, err error) {
	l, s := e.l, e.l.sess
	e.noted(err)
	if e.shorten {
		l.own().shortening = false
	}
	var gone *lock.GoneError
	switch {
	case l.over:
		s.Fail(e.id, lock.ErrNotHeld)
	case err == nil:
		l.changeLocked(e)
		b.keeper.Keep(l, l.until)
		s.TellChanged(l, l.countedLocked(), l.until, func(v session.Validity) session.Event {
			return session.Extended{ID: e.id, Validity: v}
		})
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

// changeLocked notes an extension that was done. A renewal that was under way meanwhile may have come after it:
// what it set is not trusted, and given back at the end of the lease.
func (l *Lease) changeLocked(e extension) {
	if e.shorten || l.auto && !e.auto {
		l.outlastLocked()
	}
	if e.shorten { // a read hold that had ended stays so
		l.endLocked(e.end)
	} else {
		l.lastLocked(e.end, 0)
	}
	l.makeAutoLocked(e.auto)
}

// notShortenedLocked notes a shortening that was not done, or perhaps was: then the earlier end stays. An auto
// lease is renewed at once, which makes its end sure again.
func (l *Lease) notShortenedLocked(e extension, err error) {
	l.own().changed = time.Now() // the renewal that follows counts
	if !errors.Is(err, lock.ErrOutcomeUnknown) {
		l.until, l.own().levels = e.was, e.levels
	}
	l.keepLocked()
	if l.auto {
		l.b.keeper.Hurry(l)
	}
}

// outlastLocked notes that the hold may last in the store for as long as it would have without a change of its
// lease.
func (l *Lease) outlastLocked() {
	l.own().changed = time.Now().Add(time.Nanosecond) // what began in this instant may have begun before
	last := l.until.Add(margin(l.until.Sub(l.b.time(l.since))))
	if l.auto && l.sess.AutoEnd().After(last) {
		last = l.sess.AutoEnd()
	}
	if last.After(l.mayLast) {
		l.own().mayLast = last
	}
}

// extendOne prolongs or shortens one hold, and asks once more if the store does not answer. It returns until when the
// hold can be trusted.
func (b *Broker) extendOne(r lock.Renewal, shorten bool) (end time.Time, err error) {
	end, err = b.extendCall(r, shorten)
	if errors.Is(err, lock.ErrOutcomeUnknown) {
		return b.extendAgain(r, shorten)
	}
	return end, err
}

// extendAgain is the second call. That it did nothing says nothing of the first.
func (b *Broker) extendAgain(r lock.Renewal, shorten bool) (end time.Time, err error) {
	end, err = b.extendCall(r, shorten)
	if errors.Is(err, lock.ErrUnavailable) {
		err = errors.Join(lock.ErrOutcomeUnknown, err)
	}
	return end, err
}

func (b *Broker) extendCall(r lock.Renewal, shorten bool) (end time.Time, err error) {
	start, left := time.Now(), r.TTL
	if shorten {
		err = b.store.Shorten(b.ctx, r)
	} else {
		left, err = b.store.Extend(b.ctx, r)
	}
	return start.Add(left - margin(left)), err
}
