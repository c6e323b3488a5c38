package broker

import (
	"errors"
	"slices"

	"github.com/lockd-io/lockd/internal/lock"
)

// A unary caller that chose its lease id may repeat its request with it: after a lost answer, or while the first call
// is still under way. What it may have been given is therefore not taken back, because it could be what the repetition
// was told. In exchange it is told "no" only if it surely has nothing. Else the outcome is unknown: it repeats, or
// releases. shard.repeated has all such requests that wait, or have an attempt under way.

// mayHaveLocked says whether the owner of such a request may have the lock: it must not be told "no".
func (w *waiter) mayHaveLocked() bool {
	return w.unsure || slices.ContainsFunc(w.shard.repeated[w.Claim.Owner], func(o *waiter) bool { return o.Asking() })
}

// overLocked forgets such a request.
func (w *waiter) overLocked() {
	if !w.ownID {
		return
	}
	all, owner := w.shard.repeated, w.Claim.Owner
	all[owner] = slices.DeleteFunc(all[owner], func(o *waiter) bool { return o == w })
	if len(all[owner]) == 0 {
		delete(all, owner)
	}
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

// tryRepetitionLocked has another request with the same lease id tried at once: it has the lock by now.
func (b *Broker) tryRepetitionLocked(w *waiter) {
	for _, o := range w.shard.repeated[w.Claim.Owner] {
		if o != w && o.Lined() {
			o.q.TryNext(&o.Waiter)
			b.driveLocked(o.q)
			return
		}
	}
}
