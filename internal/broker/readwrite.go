package broker

import (
	"errors"
	"strings"
	"time"
)

// A named holder that writes may read as well: its read hold stands beside its write hold, has an owner and a fence of
// its own, and outlives it (a downgrade). The other way round there is no way: a holder that reads and waits to write
// would wait for itself, so it is refused at once.

// upgradeLocked says whether a waiter wants to write what its holder reads.
func (w *waiter) upgradeLocked() bool {
	if w.sess == nil || w.claim.Kind != Write || !named(w.holder) {
		return false
	}
	return w.sess.leases[holdKey{w.claim.Name, Read, w.holder}] != nil
}

// named says whether a client chose this holder.
func named(holder string) bool { return !strings.HasPrefix(holder, "#") }

// beside reads a name for a holder that writes it. It runs as an operation of the write lease.
func (b *Broker) beside(l *Lease, w *waiter) {
	b.mu.Lock()
	s := l.sess
	if w.gone { // cancelled
		b.mu.Unlock()
		return
	}
	if own := s.leases[w.key()]; own != nil {
		b.nestLocked(own, w)
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
	w.unsure = w.unsure || a.unsure || errors.Is(a.err, ErrOutcomeUnknown)
	if a.err == nil {
		b.joinHeldLocked(w, true)
	}
	w.trying = false
	if w.gone {
		b.mu.Unlock()
		b.forfeit(w, a)
		return
	}
	defer b.mu.Unlock()
	switch {
	case a.err == nil:
		b.grantLocked(w, a)
	case errors.Is(a.err, ErrHeld): // the write hold is lost, its holder does not know yet
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

// nestLocked has a waiter hold once more what its holder holds by now.
func (b *Broker) nestLocked(l *Lease, w *waiter) {
	b.removeLocked(w)
	req := AcquireRequest{Name: l.name, Kind: l.kind, Holder: l.holder, Annotation: w.annotation}
	if !w.auto {
		req.Lease = new(w.lease)
	}
	if w.wait != forever { // if it has to wait again
		req.Wait = new(max(time.Until(w.since.Add(w.wait)), 0))
	}
	l.doLocked(func() { b.nest(l, w.id, req) })
}

func (w *waiter) key() holdKey { return holdKey{w.claim.Name, w.claim.Kind, w.holder} }
