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
	s := l.sess
	switch {
	case l.over:
		s.Fail(id, lock.ErrNotHeld)
		return
	case keep > l.permits, keep == l.permits && l.taken != 0:
		l.tellReleased(id, l.permits)
		return
	}
	s.Lighten(upkeepOf(l.permits) - upkeepOf(keep))
	l.permits, l.own().reduced = keep, time.Now()
	r, err := l.returnAll(), lock.ErrUnavailable
	r.Keep = keep
	if !b.tooOld(asked) {
		l.unlock()
		_, err = b.store.Release(b.ctx, r)
		l.lock()
	}
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
}
