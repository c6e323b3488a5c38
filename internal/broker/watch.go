package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// tellEnd tells those who watch that this replica released a hold. The tenant of the hold pays only for watchers of its
// own: nobody is slowed down because a stranger watches what he does, or does what he watches.
func (b *Broker) tellEnd(h *handoff) {
	if h.err != nil || h.r.Keep > 0 || h.r.Fence == 0 || b.watching.Names() == 0 {
		return
	}
	e := watching.End{Cause: lock.EndReleased, Fence: h.r.Fence}
	if h.res.HandedOver != 0 {
		e.Cause = lock.EndHandedOver
	}
	if h.r.Kind == lock.Semaphore {
		e.Hold = lock.PermitsOf(h.r.Owner)
	}
	b.watching.Ended(h.r.Name, e)
	if h.of != nil {
		h.of.sess.Spend(b.priceOfEnd(h.r.Name, h.of.sess.Tenant()))
	}
}

// priceOfEnd is what a tenant pays for the end of a hold that it had.
func (b *Broker) priceOfEnd(name string, t lock.Tenant) time.Duration {
	told := b.watching.Watchers(name, t)
	if told == 0 {
		return 0
	}
	return limits.Change + time.Duration(told)*limits.Told
}
