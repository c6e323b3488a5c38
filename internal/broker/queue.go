package broker

import (
	"container/list"
	"time"
)

// queue is the local FIFO of one name. It exists while somebody here holds the name or asks for it.
//
// While a session of this replica holds the name, holder is set and nobody asks the store: waiters sleep in the
// list. Otherwise the driver, one goroutine, asks the store on behalf of the head. Broker.mu guards all fields.
type queue struct {
	name    string
	holder  *Lease
	waiters list.List     // of *waiter, the next one in front
	driving bool          // the driver runs
	wake    chan struct{} // size 1, wakes the driver; nil before it had a goroutine
	burst   int           // hand-overs since the last real release
	yield   bool          // others listen for the release just made: let them try first
}

// waiter is one request for a name that is not granted yet.
type waiter struct {
	claim      Claim // as each attempt makes it, but for its TTL: this one is the longest
	lease      time.Duration
	auto       bool
	annotation string

	sess   *Session // nil for a unary call
	holder string
	id     uint64
	client string           // the unary caller's name for itself
	ownID  bool             // the unary caller chose its lease id
	once   func(onceAnswer) // a unary call's answer; does not block
	since  time.Time

	try    bool          // does not wait
	wait   time.Duration // bound of the wait, forever if negative
	timer  *time.Timer   // ends a bounded wait; nil before the request has to wait
	queued bool          // had to wait: an unreachable store does not end it any more
	trying bool          // a store call for it is under way
	unsure bool          // the outcome of a store call for it is unknown
	gone   bool          // was answered or withdrawn
	elem   *list.Element
}

const forever time.Duration = -1

// queueLocked returns the queue of a name, new if need be.
func (b *Broker) queueLocked(name string) *queue {
	q := b.queues[name]
	if q == nil {
		q = &queue{name: name}
		b.queues[name] = q
	}
	return q
}

// dropIdleLocked forgets a queue that nobody needs.
func (b *Broker) dropIdleLocked(q *queue) {
	if q.holder == nil && !q.driving && q.waiters.Len() == 0 && b.queues[q.name] == q {
		delete(b.queues, q.name)
	}
}

func (q *queue) headLocked() *waiter {
	if front := q.waiters.Front(); front != nil {
		return front.Value.(*waiter)
	}
	return nil
}

func (q *queue) pushLocked(w *waiter) { w.elem = q.waiters.PushBack(w) }

// successorLocked is the waiter a release may hand the name to: the head, unless the burst is used up or its client
// may be dead.
func (q *queue) successorLocked(burst int, now time.Time) *waiter {
	w := q.headLocked()
	if w == nil || q.burst >= burst || w.ttlLocked(now) <= 0 {
		return nil
	}
	return w
}

// ttlLocked is the TTL of an attempt made now. An auto lease ends one session TTL after its client was last heard.
func (w *waiter) ttlLocked(now time.Time) time.Duration {
	if w.auto {
		return w.sess.heard.Add(w.sess.ttl).Sub(now)
	}
	return w.lease
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// removeLocked takes a waiter out of its queue; it is not to be answered after that but by the caller.
func (b *Broker) removeLocked(q *queue, w *waiter) {
	w.gone = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.elem != nil {
		q.waiters.Remove(w.elem)
		w.elem = nil
		b.metrics.waiters.Dec()
	}
	if w.sess != nil {
		delete(w.sess.waiting, w.id)
	}
	if w.unsure && !w.trying && !w.ownID {
		b.settleLocked(w.claim, w.sess, 0)
	}
	if q.waiters.Len() == 0 {
		q.signal()
	}
	b.dropIdleLocked(q)
}

// parkLocked makes a request wait: it bounds its wait and tells its position.
func (b *Broker) parkLocked(q *queue, w *waiter) {
	if w.queued {
		return
	}
	w.queued = true
	if w.wait != forever {
		left := time.Until(w.since.Add(w.wait))
		w.timer = time.AfterFunc(left, func() { b.withdraw(q, w, ErrTimedOut) })
	}
	if w.sess != nil {
		w.sess.emitLocked(Queued{ID: w.id, Position: max(q.waiters.Len()-1, 0)})
	}
}

// refuseAllLocked answers the unary calls that wait.
func (b *Broker) refuseAllLocked(err error) {
	for _, q := range b.queues {
		for e, next := q.waiters.Front(), (*list.Element)(nil); e != nil; e = next {
			next = e.Next()
			if w := e.Value.(*waiter); w.sess == nil {
				b.removeLocked(q, w)
				b.answerLocked(w, Failed{Err: err})
			}
		}
	}
}

// withdraw ends a wait, unless it was answered already.
func (b *Broker) withdraw(q *queue, w *waiter, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.gone {
		b.removeLocked(q, w)
		b.answerLocked(w, NotGranted{ID: w.id, Cause: cause})
	}
}
