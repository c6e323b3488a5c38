package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watching"
)

// tellEnd tells who watches of a hold that this replica gave back. That is paid for by the session that had the hold if
// its own tenant watches: nobody is to be slowed down because a stranger watches what he does, or does what he
// watches.
func (b *Broker) tellEnd(h *handover) {
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
	by := b.watching.Ended(h.r.Name, e)
	if h.of == nil || h.of.sess == nil {
		return
	}
	t := h.of.sess.Client().Tenant
	told := 0
	for _, w := range by {
		if w.(*session.Session).Client().Tenant == t {
			told++
		}
	}
	if told > 0 {
		h.of.sess.Spend(limits.Change + time.Duration(told)*limits.Told)
	}
}
