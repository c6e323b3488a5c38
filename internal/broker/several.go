package broker

import (
	"slices"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A request for several names takes all or none, in one store call, and holds none while it waits. It waits in the
// queue of the name that was in the way, in the order of age, and moves to another queue when another name is. Once it
// is granted, each name is a lease of its own.

// several gives a request one claim for each of its names.
func (w *waiter) several(req request.Acquire) {
	w.Several, w.list = true, req.List
	w.all = append(w.all, w.Claim)
	for _, item := range req.More {
		c := w.Claim
		c.Name, c.Kind, c.Limit, c.Permits = item.Name, item.Kind, item.Limit, request.PermitsOf(item.Kind, item.Permits)
		w.all = append(w.all, c)
	}
	for _, c := range w.all {
		w.shards = append(w.shards, w.b.shardNumber(c.Name))
	}
	slices.Sort(w.shards)
	w.shards = slices.Compact(w.shards)
}

// overlapLocked refuses a request for several names if its holder holds one of them already: a part that nests does not
// go together with all or none.
func (w *waiter) overlapLocked() error {
	if !named(w.holder) {
		return nil
	}
	for i, c := range w.all {
		for _, k := range lock.Kinds() {
			if w.sess.leaseLocked(c.Name, k, w.holder) != nil {
				return w.list.Within(i, lock.Invalid("name", lock.ReasonAlreadyHeld, "the holder holds this lock already"))
			}
		}
	}
	return nil
}

// inTheWayLocked is a queue in which somebody here holds or waits for what a request asks for; nil if none is known.
// For a request that may wait only its own queue counts: the store tells which of the other names is in the way.
func (b *Broker) inTheWayLocked(w *waiter) *queue {
	if w.q.InTheWay(&w.Waiter) {
		return w.q
	}
	if !w.Try() {
		return nil
	}
	for _, c := range w.all {
		if q := b.shardOf(c.Name).queues[c.Name]; q != nil && q.Blocked(c.Kind) {
			return q
		}
	}
	return nil
}

// moveLocked has a request for several names wait for another one of them, unless the queue of that is full.
func (b *Broker) moveLocked(w *waiter, name string) {
	claim := w.Claim
	for _, c := range w.all {
		if c.Name == name {
			claim = c
		}
	}
	from, to := w.q, b.queueLocked(name)
	if to.Len() >= b.cfg.Limits.QueueLength {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: b.metrics.denied("queue", b.cfg.Limits.QueueLength)})
		return
	}
	w.q = to
	from.Move(&w.Waiter, &to.Queue, claim)
	from.dropIdleLocked()
	b.driveLocked(to)
}

// outOfQueueLocked takes a waiter out of its queue without an answer.
func (b *Broker) outOfQueueLocked(w *waiter) {
	w.q.StepOut(&w.Waiter)
	delete(w.shard.waiting, w)
	w.unlistByHolderLocked()
	if w.Placed() && !w.Asking() {
		b.leavePlaceLocked(w)
	}
	w.q.signalLocked()
}
