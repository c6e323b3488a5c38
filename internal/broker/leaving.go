package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
)

// A fair waiter that leaves gives up its place in the store, so that the next one need not wait until the place ends
// by itself. A waiting writer gives up its mark in the same way. How places are kept: arbiter.Step and Broker.enlist.

// placeKey says which places are given up in one call.
type placeKey struct {
	name string
	kind lock.Kind
}

// keptFor is how long the place of a session without a stream is left alone. The place has ended by then, but if nobody
// else waits it is still in the store. A session that went on elsewhere has passed it on.
const keptFor = 2 * arbiter.PlaceTime

// leavePlaceLocked gives up a waiter's place in the background. A place is left alone if another request with the same
// owner has it, because a unary caller repeated its request. It is left alone for keptFor if its session may go on
// elsewhere.
func (b *Broker) leavePlaceLocked(w *waiter) {
	h, k, owner := w.q.shard, placeKey{w.Claim.Name, w.Claim.Kind}, w.Claim.Owner
	switch {
	case w.q.Placed(owner) != nil:
		return
	case w.comesBack():
		time.AfterFunc(keptFor, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			b.giveUpLocked(h, k, owner)
		})
		return
	case w.sess != nil:
		w.sess.Spend(limits.Leaving)
	}
	b.giveUpLocked(h, k, owner)
}

// giveUpLocked has a place given up with others of its name.
func (b *Broker) giveUpLocked(h *shard, k placeKey, owner lock.Owner) {
	if h.closed {
		return
	}
	owners, busy := h.leaving[k]
	h.leaving[k] = append(owners, owner)
	if !busy {
		b.goTaking(func() { b.leavePlaces(h, k) })
	}
}

// leavePlaces gives up places until none is left to give up. One that the store did not give up ends by itself.
func (b *Broker) leavePlaces(h *shard, k placeKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.leaving[k]) > 0 && b.ctx.Err() == nil {
		owners := h.leaving[k]
		h.leaving[k] = nil
		h.mu.Unlock()
		_ = lock.Twice(func() error { return b.store.Leave(b.ctx, k.name, k.kind, owners) })
		h.mu.Lock()
	}
	delete(h.leaving, k)
}
