package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Release gives a hold back, once. The answer is Released or Failed. ErrNotHeld says that the holder did not hold
// the lock, be it that it never did, that it was lost, or that it was released before. When the store does not answer
// the release is repeated; ErrOutcomeUnknown says that it was in vain so far, and goes on in the background until the
// lease has ended by itself.
func (s *Session) Release(id uint64, h Hold) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.releaseAllLocked(id, h)
}

// releaseAllLocked is Release.
func (s *Session) releaseAllLocked(id uint64, h Hold) {
	s.withLeaseLocked(id, h, nil, func(l *Lease) error {
		if l.count == 1 && len(l.ops) == 0 {
			s.b.startReleaseLocked(l, id)
			return nil
		}
		asked := time.Now()
		return l.requestLocked(func() { s.b.release(l, id, asked) })
	})
}

// withLeaseLocked begins an operation on the lease that h names, or answers why it cannot.
func (s *Session) withLeaseLocked(id uint64, h Hold, err error, op func(*Lease) error) {
	b := s.b
	if admit := s.admitLocked(id); admit != nil {
		err = admit
	}
	l := s.leaseLocked(holdKey{h.Name, h.Kind, h.Holder})
	if err == nil && l == nil { // the name of a lease is in order
		err = b.checkNameKind(h.Name, h.Kind)
	}
	switch {
	case err != nil:
	case l == nil:
		err = lock.ErrNotHeld
	case h.Fence != 0 && h.Fence != l.fence:
		err = lock.ErrStale
	default:
		err = op(l)
	}
	if err != nil {
		s.emitLocked(Failed{ID: id, Err: err})
	}
}

// release runs as an operation of the lease.
func (b *Broker) release(l *Lease, id uint64, asked time.Time) {
	b.mu.Lock()
	s := l.sess
	switch {
	case l.over:
		s.emitLocked(Failed{ID: id, Err: lock.ErrNotHeld})
		b.mu.Unlock()
		return
	case l.count > 1 && b.tooOld(asked):
		s.emitLocked(Failed{ID: id, Err: lock.ErrUnavailable})
		b.mu.Unlock()
		return
	case l.count > 1:
		b.mu.Unlock()
		b.releaseOne(l, id)
		return
	}
	l.overLocked()
	b.mu.Unlock()
	err := b.releaseLease(l)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		s.emitLocked(Failed{ID: id, Err: goesOn(err)})
		return
	}
	l.traceReleased(id)
	s.emitLocked(Released{ID: id})
}

// startReleaseLocked is release for the ordinary case: the last hold, and nothing else under way for it. It needs no
// goroutine unless the store cannot be reached.
func (b *Broker) startReleaseLocked(l *Lease, id uint64) {
	l.sess.ops++ // first: overLocked may end the session, which then is not finished
	l.overLocked()
	h := b.handoverLocked(l.q, l, l.returnAll())
	h.start = time.Now()
	b.beginTakingLocked()
	b.store.StartRelease(h.r, func(res lock.Returned, err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if h.answered(res, err) {
			b.goTakingLocked(func() {
				b.makeReturn(h)
				b.mu.Lock()
				defer b.mu.Unlock()
				b.releasedLocked(l, id, h)
			})
		} else {
			b.releasedLocked(l, id, h)
		}
		b.endTakingLocked()
	})
}

// releasedLocked moves the queue on and answers.
func (b *Broker) releasedLocked(l *Lease, id uint64, h *handover) {
	err := b.moveOnLocked(l.q, h)
	if retriable(err) || l.lateGrant {
		b.undoLeaseLocked(l)
	}
	if err != nil {
		l.sess.emitLocked(Failed{ID: id, Err: goesOn(err)})
	} else {
		l.traceReleased(id)
		l.sess.emitLocked(Released{ID: id})
	}
	l.sess.ops--
	l.sess.finishLocked()
}

// goesOn is what the client hears of the failure of a last release. The lease is over and is given back in the background, so
// that surely nothing was done is true of the calls so far only: a client that took it for its hold would share the name.
func goesOn(err error) error {
	if retriable(err) && !errors.Is(err, lock.ErrOutcomeUnknown) {
		return errors.Join(lock.ErrOutcomeUnknown, err)
	}
	return err
}

// returnAll is the Return that ends the lease.
func (l *Lease) returnAll() lock.Return {
	return lock.Return{Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, Permits: l.taken}
}

// releaseLease frees the name of a lease that is over but still in the store, or passes it on. What fails is tried again in
// the background.
func (b *Broker) releaseLease(l *Lease) error {
	err := b.handOn(l.q, l, l.returnAll())
	if retriable(err) || l.lateGrant {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.undoLeaseLocked(l)
	}
	return err
}

// undoLeaseLocked goes on giving a lease back in the background, as long as it may last.
func (b *Broker) undoLeaseLocked(l *Lease) {
	end := l.until
	if l.mayLast.After(end) {
		end = l.mayLast
	}
	b.undoClaimLocked(l.claimLocked(max(time.Until(end), 0)), l.sess, 0)
}

// releaseOne gives back one of several holds of a holder.
func (b *Broker) releaseOne(l *Lease, id uint64) {
	remaining := l.count - 1
	r := l.returnAll()
	r.Remaining = remaining
	h := &handover{r: r}
	b.mu.Lock()
	prolonged := l.prolongingLocked(max(time.Until(l.until), 0)) // by the hold that is given back
	after := l.distrustLocked()
	b.mu.Unlock()
	b.makeReturn(h)
	err := h.err
	b.mu.Lock()
	defer b.mu.Unlock()
	after(err == nil, !errors.Is(err, lock.ErrOutcomeUnknown))
	l.own().lateReturn = l.lateReturn || h.calls > 1
	prolonged(err)
	switch {
	case l.over:
		l.sess.emitLocked(Failed{ID: id, Err: lock.ErrNotHeld})
	case err == nil:
		l.count = remaining
		l.traceReleased(id)
		l.sess.emitLocked(Released{ID: id, Remaining: remaining, Validity: l.sess.validityLocked(l.until)})
	case errors.Is(err, lock.ErrNotHeld), errors.Is(err, lock.ErrStale):
		l.verifyGoneLocked()
		l.sess.emitLocked(Failed{ID: id, Err: lock.ErrNotHeld})
	default:
		l.sess.emitLocked(Failed{ID: id, Err: err})
	}
}
