package broker

import (
	"cmp"
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Release releases a hold, once. The answer is Released or Failed. ErrNotHeld says that the holder did not hold the
// lock: it never did, lost it, or released it before. ErrOutcomeUnknown says that the store has not answered yet; it
// goes on with the release.
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

// goesOn is the error of a release as the client is told it. The store goes on with a release that it could not do, so
// the client must not hear that surely nothing was done: it would take the name for its own.
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

// tellReleased tells that remaining holds, or permits, are left.
func (l *Lease) tellReleased(id uint64, remaining uint32) {
	l.sess.Tell(session.Released{ID: id, Remaining: remaining, Validity: l.sess.Validity(l.Terms())})
}

// ReleasePermits releases all permits of a hold but req.Keep; if that is 0 it is Release. The answer is Released or
// Failed. Repeating it releases nothing more. After an error of the store lockd goes on in the background: from now on
// the hold has only the permits that it was to keep.
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

// releasePermitsLocked runs as an operation of the lease. From its beginning on, renewals keep only what is to stay.
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

// keepLocked has the store take back all permits but keep, and answers.
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
