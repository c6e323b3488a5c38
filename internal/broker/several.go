package broker

import (
	"slices"
)

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
	if !named(w.holder) {
		return nil
	}
	for l := range w.sess.leasesLocked(w.holder) {
		if slices.ContainsFunc(w.all, func(c Claim) bool { return c.Name == l.name }) {
			return &InvalidError{Field: "items", Reason: ReasonAlreadyHeld, Detail: "the holder holds one of the locks already"}
		}
	}
	return nil
}

// leasesLocked are the leases of a holder.
func (s *Session) leasesLocked(holder string) func(func(*Lease) bool) {
	return func(yield func(*Lease) bool) {
		for k, l := range s.leases {
			if k.holder == holder && !yield(l) {
				return
			}
		}
	}
}

// busyLocked says whether somebody here holds or waits for what a request asks for.
func (b *Broker) busyLocked(w *waiter) bool {
	if w.all == nil {
		return w.q.busyLocked(w)
	}
	for _, c := range w.all {
		if q := b.queues[c.Name]; q != nil && q != w.q && w.try && q.holder != nil && c.Kind != Semaphore {
			return true
		}
	}
	return w.q.busyLocked(w)
}

func (q *queue) busyLocked(w *waiter) bool { return q.waiters.Len() > 0 || q.blockedLocked(w) }

// moveLocked has a request for several names wait for another one of them.
func (b *Broker) moveLocked(w *waiter, name string) {
	from := w.q
	from.waiters.Remove(w.elem)
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
	w.q.waiters.Remove(w.elem)
	w.elem = nil
	b.metrics.waiters.Dec()
	b.unplaceLocked(w)
	w.q.signal()
}

// permitsOf is how many permits a request asks for.
func permitsOf(k Kind, n uint32) uint32 {
	if k == Semaphore {
		return max(n, 1)
	}
	return 0
}
