package broker

import (
	"cmp"
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Release releases a hold, once. The answer is Released or Failed. ErrNotHeld says that the holder did not hold
// the lock, be it that it never did, that it was lost, or that it was released before. ErrOutcomeUnknown says that the
// store has not answered yet. It goes on with the release.
func (s *Session) Release(id uint64, h session.Hold) {
	s.withLease(id, h, nil, func(l *Lease) error {
		if len(l.ops) == 0 {
			s.b.releaseLocked(l, id)
			return nil
		}
		return l.requestLocked(func() {
			s.b.releaseLocked(l, id)
			l.opOverLocked()
		})
	})
}

// withLease begins an operation on the lease that h names.
func (s *Session) withLease(id uint64, h session.Hold, wrong error, op func(*Lease) error) {
	s.Begin(id, wrong, func() error {
		part := s.b.shardOf(h.Name)
		part.mu.Lock()
		defer part.mu.Unlock()
		l := s.leaseLocked(h.Name, h.Kind, h.Holder)
		switch {
		case l == nil: // the name of a lease is in order
			return cmp.Or(s.b.rules.NameKind(h.Name, h.Kind), lock.ErrNotHeld)
		case h.Fence != 0 && h.Fence != l.fence:
			return lock.ErrStale
		}
		return op(l)
	})
}

// releaseLocked releases one of the holds of a holder. No other operation of the lease is under way.
func (b *Broker) releaseLocked(l *Lease, id uint64) {
	switch {
	case l.over:
		l.sess.Fail(id, lock.ErrNotHeld)
	case l.count == 1:
		b.startReleaseLocked(l, id)
	default:
		l.count--
		l.sess.TraceReleased(id, l.Hold())
		l.tellReleased(id, l.count)
	}
}

// startReleaseLocked begins the last release of a lease. It needs no goroutine. id is 0 at the end of the session.
func (b *Broker) startReleaseLocked(l *Lease, id uint64) {
	l.overLocked(true)
	h := &handoff{b: b, r: l.returnAll(), of: l, id: id}
	h.startLocked(l.q)
}

// releasedLocked answers a release, when the queue has moved on.
func (b *Broker) releasedLocked(h *handoff) {
	l, s := h.of, h.of.sess
	if h.err == nil {
		s.TraceReleased(h.id, l.Hold())
	}
	var answer session.Event
	switch {
	case h.id == 0:
		s.LeaseReleased()
	case h.err == nil:
		answer = session.Released{ID: h.id}
	default:
		answer = session.Failed{ID: h.id, Err: goesOn(h.err)}
	}
	s.Released(answer)
}

// goesOn is the error of a release as it is told. The store goes on with one that it could not do: who heard that
// surely nothing was done would take the name for its own.
func goesOn(err error) error {
	if lock.Retriable(err) && !errors.Is(err, lock.ErrOutcomeUnknown) {
		return errors.Join(lock.ErrOutcomeUnknown, err)
	}
	return err
}

// returnAll is the Return that ends the lease.
func (l *Lease) returnAll() lock.Return {
	return lock.Return{
		Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, Permits: l.taken, Tenant: l.sess.Share(),
	}
}

// tellReleased tells that so much of the hold is left.
func (l *Lease) tellReleased(id uint64, remaining uint32) {
	l.sess.Tell(session.Released{ID: id, Remaining: remaining, Validity: l.sess.Validity(l.Terms())})
}

// ReleasePermits releases all permits of a hold but those that it keeps, or what Release releases if it keeps none.
// The answer is Released or Failed. Repeating it releases nothing more. An error of the store says that lockd goes on
// releasing them in the background, so the hold has no more than it was to keep from now on.
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
	l.sess.Lighten(l.Weight() - lock.Weight(l.kind, keep))
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
		s.Fail(id, goesOn(err))
	}
	l.opOverLocked()
}
