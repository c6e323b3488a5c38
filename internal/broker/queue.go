package broker

import (
	"container/list"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// queue is the local FIFO of one name. It exists while somebody here holds the name or asks for it.
//
// While a session of this replica holds the name for itself alone, holder is set and nobody asks the store: waiters
// sleep in the list. Otherwise the store is asked on behalf of the head, and side by side with it for those that pass:
// requests that were not refused yet and do not wait, or ask for a shared hold. Broker.mu guards all fields.
type queue struct {
	name     string
	holder   *Lease            // alone: exclusive, fair or writing; takenOver while the name is passed on
	sharers  map[sharer]*Lease // readers and holders of permits
	waiters  line
	line     int32         // how many of them others wait behind: all but those that pass
	fails    int32         // in a row, of attempts for the head that did not reach the store
	wakeups  int32         // how often it was told to hurry
	refusals int32         // how often the store refused one of the waiters, who then waited on
	burst    int32         // hand-overs since the last real release
	driving  bool          // the driver runs
	yield    bool          // others listen for the release just made: let them try first
	wake     chan struct{} // size 1, wakes the driver; nil before it had a goroutine
	tryAt    time.Time     // when the driver makes the next attempt
	places   *places       // of the fair waiters; nil if there are none
	walk     *cursor       // of whoever walks along the waiters; nil if nobody does
}

// waiter is one request for a name, or for several, that is not granted yet.
type waiter struct {
	claim      lock.Claim   // as each attempt makes it, but for its TTL: this one is the longest
	all        []lock.Claim // if several names are asked for; claim is the one it waits for
	lease      time.Duration
	auto       bool
	annotation string

	sess   *Session // nil for a unary call
	holder string
	id     uint64
	client string           // the unary caller's name for itself
	peer   string           // and where it comes from
	ownID  bool             // the unary caller chose its lease id, and may repeat its request
	once   func(onceAnswer) // a unary call's answer; does not block
	since  time.Time

	q              *queue
	try            bool          // does not wait
	wait           time.Duration // bound of the wait, forever if negative
	timer          *time.Timer   // ends a bounded wait; nil before the request has to wait
	bound          *list.Element // in Broker.bounded, before that
	queued         bool          // had to wait: an unreachable store does not end it any more
	toldPosition   bool          // and was told its position
	trying         bool          // a store call for it is under way
	nests          bool          // wants once more what its holder has
	listing        bool          // one that keeps its place is
	placed         bool          // it may have a place in the store
	outcomeUnknown bool          // the outcome of a store call for it is unknown
	lookedFor      bool          // which is being looked for
	gone           bool          // was answered or withdrawn
	links
}

const forever time.Duration = -1

// sharer is a holder of a name that is shared.
type sharer struct {
	sess   *Session
	kind   lock.Kind
	holder string
}

func (l *Lease) sharer() sharer { return sharer{l.sess, l.kind, l.holder} }

// leaseLocked is the lease of a holder of the session, nil if there is none.
func (s *Session) leaseLocked(k holdKey) *Lease {
	q := s.b.queues[k.name]
	if q == nil {
		return nil
	}
	l := q.holder
	if l == nil || l.sess != s || l.key() != k {
		l = q.sharers[sharer{s, k.kind, k.holder}]
	}
	if l == nil || l.over {
		return nil
	}
	return l
}

// ownedLocked is the lease of an owner that holds the name of a queue, nil if there is none. An owner has the id of its
// session and its holder, see waiterLocked.
func (b *Broker) ownedLocked(q *queue, o lock.Owner) *Lease {
	if l := q.holder; l != nil && l != takenOver && l.owner == o {
		return l
	}
	id, holder, _ := strings.Cut(string(o), ":")
	if at := strings.LastIndexByte(holder, '#'); at > 0 {
		holder = holder[:at]
	}
	if l := q.sharers[sharer{b.sessions[id], lock.Read, holder}]; l != nil && l.owner == o {
		return l
	}
	return nil
}

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
	if q.holder == nil && len(q.sharers) == 0 && !q.driving && q.waiters.len() == 0 && b.queues[q.name] == q {
		delete(b.queues, q.name)
	}
}

func (q *queue) headLocked() *waiter {
	return q.waiters.front
}

// pushLocked puts a waiter into the queue: behind those who wait for as long as it does, and behind one that may have
// been granted the name already. A new head is tried at once, whatever the one before it has to wait for.
func (q *queue) pushLocked(w *waiter) {
	w.q = q
	if !w.passesLocked() {
		q.line++
	}
	for o := q.waiters.back; o != nil; o = o.before {
		if o.trying || o.outcomeUnknown || !o.since.After(w.since) {
			q.waiters.insert(w, o)
			return
		}
	}
	q.waiters.insert(w, nil)
	q.wakeLocked()
}

// unlinkLocked takes a waiter out of the list of its queue.
func (q *queue) unlinkLocked(w *waiter) {
	q.passLocked(w)
	q.waiters.remove(w)
	if !w.passesLocked() {
		q.line--
	}
}

// cursor is a place in the list of a queue that lasts while others have the mutex; at is nil at the end.
type cursor struct{ at *waiter }

// passLocked takes cursors from an element that is about to leave its place.
func (q *queue) passLocked(w *waiter) {
	if q.places != nil && q.places.round.at == w {
		q.places.round.at = w.behind
	}
	if q.walk != nil && q.walk.at == w {
		q.walk.at = w.behind
	}
}

// toFrontLocked and toBackLocked make a waiter the first or the last one.
func (q *queue) toFrontLocked(w *waiter) {
	q.places.earlyLocked(w)
	q.passLocked(w)
	q.waiters.toFront(w)
}

func (q *queue) toBackLocked(w *waiter) {
	q.passLocked(w)
	q.waiters.toBack(w)
}

// passesLocked says whether a request in a queue does not keep those behind it from asking.
func (w *waiter) passesLocked() bool { return !w.queued && (w.try || w.claim.Kind.Shared()) }

// blockedLocked says whether it is known here that a waiter cannot be granted the name. A writer that waits for local
// readers is not blocked: the store must know that it waits, or readers elsewhere would go on for ever.
func (q *queue) blockedLocked(w *waiter) bool {
	return q.holder == takenOver || q.holder != nil && w.claim.Kind != lock.Semaphore
}

// holdLocked takes note that a session of this replica holds the name.
func (q *queue) holdLocked(l *Lease) {
	if !l.kind.Shared() {
		q.holder = l
		return
	}
	if q.sharers == nil {
		q.sharers = make(map[sharer]*Lease)
	}
	q.sharers[l.sharer()] = l
}

// unholdLocked takes note that it does not any more.
func (q *queue) unholdLocked(l *Lease) {
	if l == nil {
		return
	}
	if q.holder == l {
		q.holder = nil
	}
	if q.sharers[l.sharer()] == l {
		delete(q.sharers, l.sharer())
	}
}

// leasesLocked are all leases of the name that sessions of this replica hold.
func (q *queue) leasesLocked() []*Lease {
	ls := make([]*Lease, 0, len(q.sharers)+1)
	if q.holder != nil && q.holder != takenOver {
		ls = append(ls, q.holder)
	}
	for _, l := range q.sharers {
		ls = append(ls, l)
	}
	return ls
}

// successorLocked is the waiter to whom a release of this kind may hand the name: the head, unless it wants something
// else or more, is being tried for, its client may be dead, or the burst is used up. Among fair waiters the store decides whose turn it is.
func (q *queue) successorLocked(k lock.Kind, burst int, now time.Time) *waiter {
	w := q.headLocked()
	switch {
	case w == nil || w.trying || k.Shared() || w.claim.Kind != k || w.all != nil || len(q.sharers) > 0:
		return nil
	case w.ttlLocked(now) <= 0:
		return nil
	case k != lock.Fair && int(q.burst) >= burst:
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

// wakeLocked has the driver make its next attempt now. If one is under way, another one follows.
func (q *queue) wakeLocked() {
	q.tryAt = time.Time{}
	q.wakeups++
	q.signal()
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// removeLocked takes a waiter out of its queue; it is not to be answered after that but by the caller.
func (b *Broker) removeLocked(w *waiter) {
	q := w.q
	w.gone = true
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.lined {
		if q.headLocked() == w { // the next one may want less
			q.wakeLocked()
		}
		q.unlinkLocked(w)
		b.metrics.waiters.Dec()
		b.ownLocked(w, -1, 0)
	}
	if w.trying {
		b.ownLocked(w, 0, 1)
	}
	b.unboundLocked(w)
	if w.sess != nil {
		w.sess.notWaitingLocked(w)
	}
	b.unplaceLocked(w)
	if w.outcomeUnknown && !w.trying && !w.ownID {
		b.undoLaterLocked(w)
	}
	q.signal()
	b.dropIdleLocked(q)
}

// parkLocked makes a request wait: it bounds its wait and tells its position, but to a fair waiter only when the store
// has told it. If the client does not read, that ends its session and the wait with it.
func (b *Broker) parkLocked(w *waiter, position int) {
	if !w.queued {
		if w.lined && w.passesLocked() {
			w.q.line++
		}
		w.queued = true
		b.unboundLocked(w)
		if w.wait != forever && w.timer == nil {
			b.timeLocked(w)
		}
	}
	if position >= 0 && !w.toldPosition {
		w.toldPosition = true
		if w.sess != nil {
			w.sess.emitLocked(Queued{ID: w.id, Position: position})
		}
	}
}

// refuseAllLocked answers the unary calls that wait, when there are no sessions any more.
func (b *Broker) refuseAllLocked(err error) {
	var p piece
	for _, q := range b.queues {
		for w := q.waiters.front; w != nil; {
			if w.sess != nil {
				w = w.behind
				continue
			}
			b.refuseLocked(w, Failed{Err: err})
			p.breakLocked(b, 1)
			w = q.waiters.front
		}
		p.breakLocked(b, 1)
	}
}

// withdraw ends a wait, unless it was answered already.
func (b *Broker) withdraw(w *waiter, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !w.gone {
		b.removeLocked(w)
		b.answerLocked(w, NotGranted{ID: w.id, Cause: cause})
	}
}
