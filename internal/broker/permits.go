package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
)

// ReleasePermits gives back all permits of a hold but those that it keeps, or what Release gives back if it keeps none.
// The answer is Released or Failed. Repeating it gives nothing more back. An error of the store says that lockd goes on
// giving them back in the background, so the hold has no more than it was to keep from now on.
func (s *Session) ReleasePermits(id uint64, req request.Release) {
	if req.Keep == 0 {
		s.Release(id, req.Hold)
		return
	}
	s.withLease(id, req.Hold, request.Keep(req.Hold.Kind, req.Keep), func(l *Lease) error {
		asked := time.Now()
		return l.requestLocked(func() { s.b.releasePermitsLocked(l, id, req.Keep, asked) })
	})
}

// releasePermitsLocked runs as an operation of the lease. From its beginning renewals keep what is to stay only.
func (b *Broker) releasePermitsLocked(l *Lease, id uint64, keep uint32, asked time.Time) {
	switch {
	case l.over:
		l.sess.Fail(id, lock.ErrNotHeld)
	case keep > l.permits, keep == l.permits && l.taken != 0:
		l.tellReleased(id, l.permits)
	default:
		b.keepLocked(l, id, keep, asked)
		return
	}
	l.opOverLocked()
}

// keepLocked has the store take back all permits but so many, and answers.
func (b *Broker) keepLocked(l *Lease, id uint64, keep uint32, asked time.Time) {
	l.sess.Lighten(upkeepOf(l.permits) - upkeepOf(keep))
	l.permits, l.own().reduced = keep, time.Now()
	if b.tooOld(asked) {
		b.keptLocked(l, id, keep, lock.ErrUnavailable)
		return
	}
	r := l.returnAll()
	r.Keep = keep
	b.beginTaking()
	b.store.StartRelease(r, func(_ lock.Returned, err error) {
		defer b.endTaking()
		l.lock()
		defer l.unlock()
		b.keptLocked(l, id, keep, err)
	})
}

// keptLocked answers, and ends the operation.
func (b *Broker) keptLocked(l *Lease, id uint64, keep uint32, err error) {
	s := l.sess
	l.q.Wake()
	b.driveLocked(l.q)
	switch {
	case l.over:
		s.Fail(id, lock.ErrNotHeld)
	case err == nil:
		l.tellReleased(id, keep)
	case errors.Is(err, lock.ErrNotHeld):
		l.loseLocked(lock.LostForced)
		s.Fail(id, lock.ErrNotHeld)
	default:
		s.Fail(id, err)
	}
	l.opOverLocked()
}
