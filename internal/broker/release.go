package broker

import (
	"cmp"
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Release gives a hold back, once. The answer is Released or Failed. ErrNotHeld says that the holder did not hold
// the lock, be it that it never did, that it was lost, or that it was released before. When the store does not answer
// the release is repeated; ErrOutcomeUnknown says that it was in vain so far, and goes on in the background until the
// lease has ended by itself.
func (s *Session) Release(id uint64, h session.Hold) {
	s.withLease(id, h, nil, func(l *Lease) error {
		if len(l.ops) == 0 {
			s.b.releaseLocked(l, id)
			return nil
		}
		return l.requestLocked(func() { s.b.releaseLocked(l, id) })
	})
}

// withLease begins an operation on the lease that h names.
func (s *Session) withLease(id uint64, h session.Hold, wrong error, op func(*Lease) error) {
	s.Begin(id, wrong, func() error { return s.operate(h, op) })
}

func (s *Session) operate(h session.Hold, op func(*Lease) error) error {
	part := s.b.shardOf(h.Name)
	part.mu.Lock()
	defer part.mu.Unlock()
	l := s.leaseLocked(holdKey{h.Name, h.Kind, h.Holder})
	switch {
	case l == nil: // the name of a lease is in order
		return cmp.Or(s.b.rules.NameKind(h.Name, h.Kind), lock.ErrNotHeld)
	case h.Fence != 0 && h.Fence != l.fence:
		return lock.ErrStale
	}
	return op(l)
}

// releaseLocked gives back one of the holds of a holder. No other operation of the lease is under way.
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

// startReleaseLocked begins the last release of a lease. It needs no goroutine unless the store cannot be reached. id
// is 0 at the end of the session.
func (b *Broker) startReleaseLocked(l *Lease, id uint64) {
	l.overLocked()
	l.sess.EnterOp()
	h := b.handoverLocked(l.q, l, l.returnAll())
	h.start = time.Now()
	l.q.shard.calls++
	b.store.StartRelease(h.r, func(res lock.Returned, err error) {
		if id == 0 {
			defer l.sess.GaveBack()
		}
		l.lock()
		defer l.unlock()
		defer b.endCallLocked(l.q.shard)
		if !h.answered(res, err) {
			b.releasedLocked(l, id, h)
			return
		}
		b.goTaking(func() {
			b.makeReturn(h)
			l.lock()
			defer l.unlock()
			b.releasedLocked(l, id, h)
		})
	})
}

// releasedLocked moves the queue on and answers.
func (b *Broker) releasedLocked(l *Lease, id uint64, h *handover) {
	err := b.moveOnLocked(l.q, h)
	if lock.Retriable(err) || l.lateGrant {
		b.undoLeaseLocked(l)
	}
	if err == nil {
		l.sess.TraceReleased(id, l.Hold())
	}
	switch {
	case id == 0:
	case err == nil:
		l.sess.Tell(session.Released{ID: id})
	case lock.Retriable(err) && !errors.Is(err, lock.ErrOutcomeUnknown):
		// It goes on in the background. A client that heard that surely nothing was done would take the name for its own.
		l.sess.Fail(id, errors.Join(lock.ErrOutcomeUnknown, err))
	default:
		l.sess.Fail(id, err)
	}
	l.sess.LeaveOp()
}

// returnAll is the Return that ends the lease.
func (l *Lease) returnAll() lock.Return {
	return lock.Return{Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, Permits: l.taken}
}

// undoLeaseLocked goes on giving a lease back in the background, as long as it may last.
func (b *Broker) undoLeaseLocked(l *Lease) {
	end := l.until
	if l.mayLast.After(end) {
		end = l.mayLast
	}
	b.undoClaim(l.claimLocked(max(time.Until(end), 0)), l.sess, 0)
}

// tellReleased tells that so much of the hold is left.
func (l *Lease) tellReleased(id uint64, remaining uint32) {
	l.sess.Tell(session.Released{ID: id, Remaining: remaining, Validity: session.Validity{Until: l.until}})
}

// Requests takes what came with a sign of life, in its order.
func (s *Session) Requests(all []request.Request) {
	for i := range all {
		switch r := &all[i]; r.Verb {
		case request.VerbAcquire:
			s.Acquire(r.ID, r.Acquire)
		case request.VerbRelease:
			s.ReleasePermits(r.ID, r.Release)
		case request.VerbExtend:
			s.Extend(r.ID, r.Extend)
		case request.VerbRefuse:
			s.Refuse(r.ID, r.Err)
		}
	}
}
