package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// ReleaseRequest gives permits back, and keeps some.
type ReleaseRequest struct {
	Hold Hold
	Keep uint32 // 0: none
}

// ReleasePermits gives back all permits of a hold but those that it keeps, or what Release gives back if it keeps none. The
// answer is Released or Failed. Repeating it gives nothing more back. An error of the store says that lockd goes on giving
// them back in the background, so the hold has no more than it was to keep from now on.
func (s *Session) ReleasePermits(id uint64, req ReleaseRequest) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.releaseLocked(id, req)
}

// releaseLocked is ReleasePermits.
func (s *Session) releaseLocked(id uint64, req ReleaseRequest) {
	if req.Keep == 0 {
		s.releaseAllLocked(id, req.Hold)
		return
	}
	s.withLeaseLocked(id, req.Hold, checkKeep(req.Hold.Kind, req.Keep), func(l *Lease) error {
		asked := time.Now()
		return l.requestLocked(func() { s.b.releasePermits(l, id, req.Keep, asked) })
	})
}

func checkKeep(k lock.Kind, keep uint32) error {
	if keep > 0 && k != lock.Semaphore {
		return &lock.InvalidError{Field: "keep", Reason: lock.ReasonPermits, Detail: "only a semaphore has permits"}
	}
	return nil
}

// releasePermits runs as an operation of the lease. From its beginning renewals keep what is to stay only.
func (b *Broker) releasePermits(l *Lease, id uint64, keep uint32, asked time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := l.sess
	switch {
	case l.over:
		s.emitLocked(Failed{ID: id, Err: lock.ErrNotHeld})
		return
	case keep >= l.permits:
		s.emitLocked(Released{ID: id, Remaining: l.permits, Validity: s.validityLocked(l.until)})
		return
	}
	s.weight -= upkeepOf(l.permits) - upkeepOf(keep)
	l.permits, l.own().reduced = keep, time.Now()
	h := &handover{r: l.returnAll()}
	h.r.Remaining = keep
	if b.tooOld(asked) {
		h.err = lock.ErrUnavailable
	} else {
		b.mu.Unlock()
		b.makeReturn(h)
		b.mu.Lock()
	}
	l.q.wakeLocked()
	b.driveLocked(l.q)
	switch {
	case l.over:
		s.emitLocked(Failed{ID: id, Err: lock.ErrNotHeld})
	case h.err == nil:
		s.emitLocked(Released{ID: id, Remaining: keep, Validity: s.validityLocked(l.until)})
	case errors.Is(h.err, lock.ErrNotHeld):
		l.loseLocked(lock.LostForced)
		s.emitLocked(Failed{ID: id, Err: lock.ErrNotHeld})
	default:
		b.undoReturnLocked(h.r, max(time.Until(l.until), 0), s, 0)
		s.emitLocked(Failed{ID: id, Err: h.err})
	}
}
