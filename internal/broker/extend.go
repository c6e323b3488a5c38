package broker

import (
	"errors"
	"time"
)

// ExtendRequest asks to prolong a fixed lease.
type ExtendRequest struct {
	Hold  Hold
	Lease time.Duration
}

// extension is an Extend under way.
type extension struct {
	l     *Lease
	id    uint64
	r     Renewal
	start time.Time   // of the last store call
	noted func(error) // from prolongingLocked
}

// Extend makes a fixed lease last at least so long from now. The answer is Extended or Failed. Repeating it is
// harmless; with an unknown outcome the lease ends somewhere between its old and its new time, and the old is told.
func (s *Session) Extend(id uint64, req ExtendRequest) {
	s.withLease(id, req.Hold, s.b.checkLease(&req.Lease), func(l *Lease) error {
		if len(l.ops) > 0 {
			return l.requestLocked(func() { s.b.extend(l, id, req.Lease) })
		}
		err := s.operableLocked()
		if err == nil {
			err = s.b.startExtendLocked(l, id, req.Lease)
		}
		return err
	})
}

// extend runs as an operation of the lease.
func (b *Broker) extend(l *Lease, id uint64, d time.Duration) {
	b.mu.Lock()
	e, err := l.extensionLocked(id, d)
	b.mu.Unlock()
	if err == nil {
		e.start, err = b.extendOne(e.r)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.extendedLocked(e, err)
}

// startExtendLocked is extend for the ordinary case: nothing else is under way for the lease. It needs no goroutine
// unless the store does not answer: thousands of them would stand in the way of all others at Broker.mu.
func (b *Broker) startExtendLocked(l *Lease, id uint64, d time.Duration) error {
	e, err := l.extensionLocked(id, d)
	if err != nil {
		return err
	}
	l.enterOpLocked()
	b.wg.Add(1)
	e.start = time.Now()
	b.store.StartExtend(e.r, func(err error) {
		defer b.wg.Done()
		b.mu.Lock()
		defer b.mu.Unlock()
		if errors.Is(err, ErrOutcomeUnknown) {
			b.wg.Go(func() {
				e.start, err = b.extendAgain(e.r)
				b.mu.Lock()
				defer b.mu.Unlock()
				b.extendedLocked(e, err)
				l.leaveOpLocked()
			})
			return
		}
		b.extendedLocked(e, err)
		l.leaveOpLocked()
	})
	return nil
}

// extensionLocked begins an extension.
func (l *Lease) extensionLocked(id uint64, d time.Duration) (extension, error) {
	e := extension{l: l, id: id, noted: func(error) {}}
	switch {
	case l.over:
		return e, ErrNotHeld
	case l.auto:
		return e, ErrAutoLease
	}
	e.noted = l.prolongingLocked(d)
	e.r = Renewal{Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, TTL: d, Permits: l.permits}
	return e, nil
}

// extendedLocked takes note of the outcome of an extension and answers.
func (b *Broker) extendedLocked(e extension, err error) {
	l, s := e.l, e.l.sess
	e.noted(err)
	var gone *GoneError
	switch {
	case l.over:
		s.emitLocked(Failed{ID: e.id, Err: ErrNotHeld})
	case err == nil:
		l.stretchLocked(e.start, e.r.TTL)
		b.keeper.Keep(l, l.until)
		s.emitLocked(Extended{ID: e.id, Validity: s.validityLocked(l.until)})
	case errors.As(err, &gone):
		l.loseLocked(gone.Reason)
		s.emitLocked(Failed{ID: e.id, Err: ErrNotHeld})
	default:
		s.emitLocked(Failed{ID: e.id, Err: err})
	}
}

// extendOne prolongs one hold, and asks once more if the store does not answer.
func (b *Broker) extendOne(r Renewal) (start time.Time, err error) {
	start = time.Now()
	if err = b.store.Extend(b.ctx, r); errors.Is(err, ErrOutcomeUnknown) {
		return b.extendAgain(r)
	}
	return start, err
}

// extendAgain is the second call. That it did nothing says nothing of the first.
func (b *Broker) extendAgain(r Renewal) (start time.Time, err error) {
	start = time.Now()
	if err = b.store.Extend(b.ctx, r); errors.Is(err, ErrUnavailable) {
		err = errors.Join(ErrOutcomeUnknown, err)
	}
	return start, err
}
