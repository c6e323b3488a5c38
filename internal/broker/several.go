package broker

import "github.com/lockd-io/lockd/internal/lock"

// A request for several names takes all or none, in one store call, and holds none while it waits. It waits in the
// queue of the name that was in the way, in the order of age, and moves on when another one is. Once it is granted
// each name is a lease of its own.

// severalLocked makes one request of all its claims.
func (w *waiter) severalLocked(req AcquireRequest) error {
	w.all = append(w.all, w.claim)
	for _, item := range req.More {
		c := w.claim
		c.Name, c.Kind, c.Limit, c.Permits = item.Name, item.Kind, item.Limit, permitsOf(item.Kind, item.Permits)
		w.all = append(w.all, c)
	}
	return w.overlapLocked()
}

// overlapLocked refuses a request for several names if its holder holds one of them already: all or nothing, and
// reentrant in a part, do not go together.
func (w *waiter) overlapLocked() error {
	if len(w.ownLocked()) == 0 {
		return nil
	}
	return &lock.InvalidError{Field: "items", Reason: lock.ReasonAlreadyHeld, Detail: "the holder holds one of the locks already"}
}

// ownLocked are the leases that its holder, if it is a named one, has of what a waiter asks for.
func (w *waiter) ownLocked() (ls []*Lease) {
	if w.sess == nil || !named(w.holder) {
		return nil
	}
	for _, c := range w.claimed() {
		for k := lock.Exclusive; k <= lock.Write; k++ { // a semaphore has no named holders
			if l := w.sess.leaseLocked(holdKey{c.Name, k, w.holder}); l != nil {
				ls = append(ls, l)
			}
		}
	}
	return ls
}

// inTheWayLocked is a queue in which somebody here holds or waits for what a request asks for; nil if none is known. Those
// that pass, and were not refused yet, are in the way of none that passes. A request that waits looks at its own
// queue only: the store tells which of the others is in the way.
func (b *Broker) inTheWayLocked(w *waiter) *queue {
	q := w.q
	if q.line > 0 || q.waiters.len() > 0 && !w.passesLocked() || q.blockedLocked(w) {
		return q
	}
	if !w.try {
		return nil
	}
	for _, c := range w.all {
		if q := b.queues[c.Name]; q != nil && q.holder != nil && c.Kind != lock.Semaphore {
			return q
		}
	}
	return nil
}

// moveLocked has a request for several names wait for another one of them.
func (b *Broker) moveLocked(w *waiter, name string) {
	from := w.q
	from.unlinkLocked(w)
	for _, c := range w.all {
		if c.Name == name {
			w.claim = c
		}
	}
	to := b.queueLocked(name)
	to.pushLocked(w)
	b.dropIdleLocked(from)
	b.driveLocked(to)
}

// outOfQueueLocked takes a waiter from the list; it still waits.
func (b *Broker) outOfQueueLocked(w *waiter) {
	w.q.unlinkLocked(w)
	b.metrics.waiters.Dec()
	b.unplaceLocked(w)
	w.q.signal()
}

// permitsOf is how many permits a request asks for.
func permitsOf(k lock.Kind, n uint32) uint32 {
	if k == lock.Semaphore {
		return max(n, 1)
	}
	return 0
}
