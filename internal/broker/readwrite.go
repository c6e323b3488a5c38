package broker

import (
	"errors"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A named holder that writes may read as well: its read hold stands beside its write hold, has an owner and a fence of
// its own, and outlives it (a downgrade). The other way round there is no way: a holder that reads and waits to write
// would wait for itself, so it is refused at once.

// upgradeLocked says whether a waiter wants to write what its holder reads.
func (w *waiter) upgradeLocked() bool {
	if w.sess == nil || w.Claim.Kind != lock.Write || !named(w.holder) {
		return false
	}
	return w.sess.leaseLocked(w.Claim.Name, lock.Read, w.holder) != nil
}

// ownWriteLocked is the write lease under which a waiter wants to read, nil if there is none.
func (w *waiter) ownWriteLocked() *Lease {
	if w.all != nil || w.Claim.Kind != lock.Read || !named(w.holder) {
		return nil
	}
	return w.sess.leaseLocked(w.Claim.Name, lock.Write, w.holder)
}

func (b *Broker) beginReadUnderWriteLocked(l *Lease, w *waiter) {
	w.q, w.apart = l.q, true
	b.boundLocked(w)
	l.doLocked(func() { b.readUnderWriteLocked(l, w) })
}

// readUnderWriteLocked reads a name for a holder that writes it. It runs as an operation of the write lease.
func (b *Broker) readUnderWriteLocked(l *Lease, w *waiter) {
	own := w.sess.leaseLocked(w.Claim.Name, w.Claim.Kind, w.holder)
	switch {
	case w.Answered(): // cancelled
	case own != nil:
		b.renestLocked(own, w)
	case l.over:
		b.ordinaryLocked(w)
	default:
		a := w.attemptLocked()
		a.claim.WriteOwner = l.owner
		b.ask(w, a, func(b *Broker, w *waiter, a attempt) {
			b.readLocked(w, a)
			l.opOverLocked()
		})
		return
	}
	l.opOverLocked()
}

// readLocked goes on with the outcome of the attempt.
func (b *Broker) readLocked(w *waiter, a attempt) {
	_, settled := b.endAttemptLocked(w, a)
	switch {
	case settled:
	case a.err == nil:
		b.grantAndAskMoreLocked(w, a)
	case errors.Is(a.err, lock.ErrHeld): // the write hold is lost, its holder does not know yet
		if err := b.enterLocked(w); err != nil {
			b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
		}
	default:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: a.err})
	}
}
