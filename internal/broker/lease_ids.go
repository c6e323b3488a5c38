package broker

import (
	"errors"

	"github.com/lockd-io/lockd/internal/lock"
)

// A unary caller that chose its lease id may repeat its request with it: after a lost answer, or while the first call
// is still under way. What it may have been given is therefore not taken back, because it could be what the repetition
// was told. In exchange it is told "no" only if it surely has nothing. Else the outcome is unknown: it repeats, or
// releases.

// leaseIDUse counts the requests with the same lease id.
type leaseIDUse struct {
	waiting int
	ghosts  int // left, with an attempt under way
}

// countLeaseIDLocked counts a request that begins or ends to wait, or leaves while the store is asked for it, if it may
// be repeated.
func (b *Broker) countLeaseIDLocked(w *waiter, waiting, ghosts int) {
	if !w.ownID {
		return
	}
	of := w.shard.leaseIDs
	n := of[w.Claim.Owner]
	n.waiting += waiting
	n.ghosts += ghosts
	of[w.Claim.Owner] = n
	if n == (leaseIDUse{}) {
		delete(of, w.Claim.Owner)
	}
}

// mayHaveLocked says whether the owner of such a request may have the lock: it must not be told "no".
func (w *waiter) mayHaveLocked() bool {
	return w.ownID && (w.unsure || w.Asking() || w.shard.leaseIDs[w.Claim.Owner].ghosts > 0)
}

// doubtLocked notes what the outcome of a call says of what a waiter may have. What a session asks for in vain the
// store settles. A unary caller that chose its lease id repeats its request; what another one may have is released.
func (b *Broker) doubtLocked(w *waiter, err error) {
	switch unknown := errors.Is(err, lock.ErrOutcomeUnknown); {
	case w.sess != nil:
	case w.ownID:
		w.unsure = unknown || w.unsure && errors.Is(err, lock.ErrUnavailable)
	case unknown:
		b.giveBack(returnOf(w.Claim))
	}
}

// leaveToRepetitionLocked leaves what an attempt may have taken to a repetition of a request that has left.
func (b *Broker) leaveToRepetitionLocked(w *waiter, granted bool) {
	b.countLeaseIDLocked(w, 0, -1)
	if granted {
		b.tryRepetitionLocked(w)
	}
}

// tryRepetitionLocked has another request with the same lease id tried at once: it has the lock by now.
func (b *Broker) tryRepetitionLocked(w *waiter) {
	if w.shard.leaseIDs[w.Claim.Owner].waiting == 0 {
		return
	}
	q := b.queueLocked(w.Claim.Name)
	for other := range q.All() {
		if other.Claim.Owner == w.Claim.Owner && other.For != w {
			b.tryNextLocked(other.For)
			break
		}
	}
	q.dropIdleLocked()
}
