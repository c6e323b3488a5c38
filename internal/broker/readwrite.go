package broker

import (
	"errors"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

// A named holder that writes may read as well: its read hold stands beside its write hold, has an owner and a fence of
// its own, and outlives it (a downgrade). The other way round there is no way: a holder that reads and waits to write
// would wait for itself, so it is refused at once.

// upgradeLocked says whether a waiter wants to write what its holder reads.
func (w *waiter) upgradeLocked() bool {
	if w.sess == nil || w.claim.Kind != lock.Write || !named(w.holder) {
		return false
	}
	return w.sess.leaseLocked(holdKey{w.claim.Name, lock.Read, w.holder}) != nil
}

// named says whether a client chose this holder.
func named(holder string) bool { return !strings.HasPrefix(holder, "#") }

// readBesideWrite reads a name for a holder that writes it. It runs as an operation of the write lease.
func (b *Broker) readBesideWrite(l *Lease, w *waiter) {
	b.mu.Lock()
	s := l.sess
	if w.gone { // cancelled
		b.mu.Unlock()
		return
	}
	if own := s.leaseLocked(w.key()); own != nil {
		b.renestLocked(own, w)
		b.mu.Unlock()
		return
	}
	if l.over {
		b.reenterLocked(w)
		b.mu.Unlock()
		return
	}
	c := w.claimLocked()
	c.Beside = l.owner
	b.mu.Unlock()
	a := b.insist(b.attempt(attempt{claim: c}))
	b.mu.Lock()
	defer b.mu.Unlock()
	_, there := b.endAttemptLocked(w, a)
	switch {
	case !there:
	case a.err == nil:
		b.grantLocked(w, a)
	case errors.Is(a.err, lock.ErrHeld): // the write hold is lost, its holder does not know yet
		b.reenterLocked(w)
	default:
		b.refuseLocked(w, Failed{ID: w.id, Err: a.err})
	}
}

// reenterLocked makes an ordinary request of one that is in no queue.
func (b *Broker) reenterLocked(w *waiter) {
	if err := b.enterLocked(w); err != nil {
		b.answerLocked(w, Failed{ID: w.id, Err: err})
	}
}

func (w *waiter) key() holdKey { return holdKey{w.claim.Name, w.claim.Kind, w.holder} }
