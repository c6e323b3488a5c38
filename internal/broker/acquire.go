package broker

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// AcquireRequest asks for a lock, or for all of several or none.
type AcquireRequest struct {
	Name       string
	Kind       lock.Kind
	Permits    uint32         // of a semaphore; 0 is 1
	Limit      uint32         // of a semaphore; 0 is whatever was set
	More       []Item         // further locks, with other names
	Holder     string         // empty: the request is its own holder
	Wait       *time.Duration // nil: for ever; 0: try once
	Lease      *time.Duration // nil: auto
	Annotation string
}

// Item is one of several locks.
type Item struct {
	Name           string
	Kind           lock.Kind
	Permits, Limit uint32 // as in AcquireRequest
}

// Acquire asks for a lock. The answer is Granted, NotGranted or Failed, after Queued if the request has to wait.
//
// A holder that holds the lock already holds it once more. When the store does not answer, the same attempt is made
// once more; if that fails too the answer is ErrOutcomeUnknown and whatever was taken is given back. A request that
// had to wait is not ended by a store that cannot be reached.
func (s *Session) Acquire(id uint64, req AcquireRequest) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.requestLocked(id, req)
}

// requestLocked is Acquire.
func (s *Session) requestLocked(id uint64, req AcquireRequest) {
	b := s.b
	err := s.admitLocked(id)
	if err == nil {
		err = b.checkAcquire(req)
	}
	if err == nil {
		err = s.acquireLocked(id, req)
	}
	if err != nil {
		b.metrics.acquired(req.Kind, err)
		s.emitLocked(Failed{ID: id, Err: err})
	}
}

func (s *Session) acquireLocked(id uint64, req AcquireRequest) error {
	w := s.waiterLocked(id, req)
	if len(req.More) > 0 {
		if err := w.severalLocked(req); err != nil {
			return err
		}
	}
	return s.routeLocked(w)
}

// routeLocked has a request go its way: to a hold of its holder, or into its queue.
func (s *Session) routeLocked(w *waiter) error {
	b := s.b
	if w.all == nil && named(w.holder) {
		if l := s.leaseLocked(w.key()); l != nil {
			err := s.operableLocked()
			if err == nil {
				b.nestLocked(l, w)
			}
			return err
		}
		if w.upgradeLocked() {
			return ErrUpgrade
		}
	}
	if err := s.roomLocked(w); err != nil {
		return err
	}
	w.q = b.queueLocked(w.claim.Name)
	defer b.dropIdleLocked(w.q)
	if l := s.leaseLocked(holdKey{w.claim.Name, lock.Write, w.holder}); l != nil && w.claim.Kind == lock.Read && w.all == nil {
		err := l.requestLocked(func() { b.readBesideWrite(l, w) })
		if err == nil {
			s.waitingLocked(w)
			b.boundLocked(w)
		}
		return err
	}
	return b.enterLocked(w)
}

// waiterLocked is a request that was not tried yet.
func (s *Session) waiterLocked(id uint64, req AcquireRequest) *waiter {
	mark := "#" + strconv.FormatUint(id, 10)
	w := &waiter{
		claim: lock.Claim{
			Name: req.Name, Kind: req.Kind, Owner: s.owner(req.Holder + mark), Count: 1, TTL: s.ttl,
			Permits: permitsOf(req.Kind, req.Permits), Limit: req.Limit,
		},
		auto: req.Lease == nil, annotation: req.Annotation, sess: s, holder: cmp.Or(req.Holder, mark), id: id,
	}
	if req.Lease != nil {
		w.lease, w.claim.TTL = *req.Lease, *req.Lease
	}
	w.waitFor(req.Wait)
	return w
}

// waitFor begins the wait.
func (w *waiter) waitFor(wait *time.Duration) {
	w.since, w.wait = time.Now(), forever
	if wait != nil {
		w.wait, w.try = *wait, *wait == 0
	}
}

// enterLocked puts a request into its queue, or answers it if it does not want to wait for others.
func (b *Broker) enterLocked(w *waiter) error {
	q := b.queueLocked(w.claim.Name)
	w.q = q
	busy := b.inTheWayLocked(w)
	if busy != nil && w.try {
		b.refuseLocked(w, busy.heldLocked(w))
		return nil
	}
	if q.waiters.len() >= b.cfg.Limits.QueueLength {
		b.removeLocked(w)
		return b.metrics.denied("queue", b.cfg.Limits.QueueLength)
	}
	if w.sess != nil {
		w.sess.waitingLocked(w)
	}
	q.pushLocked(w)
	b.metrics.waiters.Inc()
	b.ownLocked(w, 1, 0)
	switch {
	case busy != nil:
		q.placeLocked(w)
		b.parkLocked(w, w.positionLocked())
	default:
		b.boundLocked(w)
	}
	if busy == nil && w.passesLocked() && !q.yield && !b.closed {
		b.startLocked(w)
		return nil
	}
	b.driveLocked(q)
	return nil
}

// positionLocked is how many wait before one that has to wait from now on; what a fair waiter is told comes from the
// store.
func (w *waiter) positionLocked() int {
	switch q := w.q; {
	case w.claim.Kind == lock.Fair && w.all == nil:
		return -1
	case q.headLocked() == w:
		return 0
	case w.passesLocked(): // it is not in the line yet
		return int(q.line)
	default:
		return int(max(q.line-1, 0))
	}
}

// heldLocked answers a request that does not want to wait, from what is known here.
func (q *queue) heldLocked(w *waiter) NotGranted {
	n := NotGranted{ID: w.id, Cause: lock.ErrHeld}
	if w.all != nil {
		n.Name = q.name
	}
	if q.holder != nil {
		n.RetryAfter, n.HeldBy = max(time.Until(q.holder.until), 0), q.holder.owner
	}
	return n
}

// grantLocked answers a waiter with what it asked for. A session's lease is kept from now on; a unary one ends by
// itself.
func (b *Broker) grantLocked(w *waiter, a attempt) {
	late := w.outcomeUnknown
	w.outcomeUnknown, w.placed = false, false
	until := a.until()
	b.metrics.granted(w)
	if w.sess == nil {
		b.removeLocked(w)
		w.once(onceAnswer{fence: a.fence(), until: until})
		b.tellTwinLocked(w)
		return
	}
	told := Granted{ID: w.id, Validity: w.sess.validityLocked(until), Count: 1, Auto: w.auto}
	var ls []*Lease
	for i, c := range a.claims() {
		l := &Lease{
			b: b, sess: w.sess, q: b.queueLocked(c.Name), name: c.Name, kind: c.Kind, holder: w.holder, request: w.id, owner: c.Owner,
			fence: a.grants[i].Fence, taken: c.Permits, permits: c.Permits, since: b.stamp(time.Now()), lateGrant: late,
			auto: w.auto, until: until, seen: b.stamp(a.start), count: 1, rare: nothing,
		}
		if w.annotation != "" {
			l.own().annotation = w.annotation
		}
		w.sess.weight += upkeepOf(c.Permits)
		l.q.holdLocked(l)
		b.order.leases.ReplaceOrInsert(l)
		w.sess.listLocked(l)
		b.metrics.held[l.kind].Inc()
		b.metrics.leases.Inc()
		l.keepLocked()
		ls = append(ls, l)
		if i == 0 {
			told.Hold = l.hold()
		} else {
			told.More = append(told.More, l.hold())
		}
	}
	b.removeLocked(w) // only now: a queue that nobody needs is dropped
	w.sess.emitLocked(told)
	for _, l := range ls {
		b.joinHoldLocked(l)
	}
}

// joinHoldLocked settles what else its holder asked for: a named holder must not wait for itself.
func (b *Broker) joinHoldLocked(l *Lease) {
	if !named(l.holder) {
		return
	}
	var ids []uint64
	for id, w := range l.sess.waiting {
		if w.holder == l.holder && !w.trying {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if w := l.sess.waiting[id]; w != nil {
			b.joinLocked(l, w)
		}
	}
}

// joinHeldLocked is joinHoldLocked for a waiter that was being tried at that time. If that was granted, it is settled
// only if there cannot be both: what it got is to be given back.
func (b *Broker) joinHeldLocked(w *waiter, granted bool) {
	for _, l := range w.ownLocked() {
		if granted && w.all == nil && w.claim.Kind != l.kind {
			continue
		}
		if b.joinLocked(l, w); w.gone || !w.lined {
			return
		}
	}
}

// joinLocked settles a waiter whose holder has this lease, if it concerns it.
func (b *Broker) joinLocked(l *Lease, w *waiter) {
	switch {
	case w.gone:
	case w.all != nil:
		if err := w.overlapLocked(); err != nil {
			b.refuseLocked(w, Failed{ID: w.id, Err: err})
		}
	case w.claim.Name != l.name:
	case w.claim.Kind == l.kind:
		b.renestLocked(l, w)
	case w.claim.Kind == lock.Read && l.kind == lock.Write && w.lined:
		b.outOfQueueLocked(w)
		l.doLocked(func() { b.readBesideWrite(l, w) })
	case w.upgradeLocked():
		b.refuseLocked(w, Failed{ID: w.id, Err: ErrUpgrade})
	}
}

// answerLocked tells a waiter that it was not granted.
func (b *Broker) answerLocked(w *waiter, e Event) {
	cause := lock.ErrHeld
	switch e := e.(type) {
	case NotGranted:
		cause = e.Cause
	case Failed:
		cause = e.Err
	}
	b.metrics.acquired(w.claim.Kind, cause)
	if w.sess != nil {
		w.sess.emitLocked(e)
		return
	}
	w.once(onceAnswer{refused: e})
}

// Cancel ends the wait of another request of the session.
func (s *Session) Cancel(id, target uint64) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.admitLocked(id); err != nil {
		s.emitLocked(Failed{ID: id, Err: err})
		return
	}
	w := s.waiting[target]
	if w == nil {
		s.emitLocked(Failed{ID: id, Err: ErrNotWaiting})
		return
	}
	b.removeLocked(w)
	b.answerLocked(w, NotGranted{ID: target, Cause: ErrCancelled})
	s.emitLocked(Done{ID: id})
}
