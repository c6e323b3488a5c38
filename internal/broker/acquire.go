package broker

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AcquireRequest asks for a lock, or for all of several or none.
type AcquireRequest struct {
	Name       string
	Kind       Kind
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
	Kind           Kind
	Permits, Limit uint32 // as in AcquireRequest
}

// Acquire asks for a lock. The answer is Granted, NotGranted or Failed, after Queued if the request has to wait.
//
// A holder that holds the lock already holds it once more. When the store does not answer, the same attempt is made
// once more; if that fails too the answer is ErrOutcomeUnknown and whatever was taken is given back. A request that
// had to wait is not ended by a store that cannot be reached.
func (s *Session) Acquire(id uint64, req AcquireRequest) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
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
	b := s.b
	mark := "#" + strconv.FormatUint(id, 10)
	holder := cmp.Or(req.Holder, mark)
	if l := s.leases[holdKey{req.Name, req.Kind, holder}]; l != nil {
		return l.requestLocked(func() { b.nest(l, id, req) })
	}
	w := &waiter{
		claim: Claim{Name: req.Name, Kind: req.Kind, Owner: s.owner(req.Holder + mark), Count: 1, TTL: s.ttl},
		auto:  req.Lease == nil, annotation: req.Annotation,
		sess: s, holder: holder, id: id,
	}
	if req.Lease != nil {
		w.lease, w.claim.TTL = *req.Lease, *req.Lease
	}
	return b.joinLocked(w, req.Wait)
}

// joinLocked puts a request into the queue of its name, or answers it if it does not want to wait for others.
func (b *Broker) joinLocked(w *waiter, wait *time.Duration) error {
	w.since, w.wait = time.Now(), forever
	if wait != nil {
		w.wait, w.try = *wait, *wait == 0
	}
	q := b.queueLocked(w.claim.Name)
	defer b.dropIdleLocked(q)
	busy := q.holder != nil || q.waiters.Len() > 0
	if busy && w.try {
		b.answerLocked(w, q.heldLocked(w.id))
		return nil
	}
	if q.waiters.Len() >= b.cfg.Limits.QueueLength {
		return b.metrics.denied("queue", b.cfg.Limits.QueueLength)
	}
	if s := w.sess; s != nil {
		if err := s.roomLocked(); err != nil {
			return err
		}
		s.waiting[w.id] = w
	}
	q.pushLocked(w)
	b.metrics.waiters.Inc()
	if busy {
		b.parkLocked(q, w)
	}
	b.driveLocked(q)
	return nil
}

// heldLocked answers a request that does not want to wait, from what is known here.
func (q *queue) heldLocked(id uint64) NotGranted {
	n := NotGranted{ID: id, Cause: ErrHeld}
	if q.holder != nil {
		n.RetryAfter, n.HeldBy = max(time.Until(q.holder.until), 0), q.holder.owner
	}
	return n
}

// grantLocked answers a waiter with the lock. A session's lease is kept from now on; a unary one ends by itself.
func (b *Broker) grantLocked(q *queue, w *waiter, a attempt) {
	unsure := w.unsure
	w.unsure = false
	until := a.until()
	b.metrics.granted(w)
	if w.sess == nil {
		b.removeLocked(q, w)
		w.once(onceAnswer{fence: a.fence, until: until})
		return
	}
	l := &Lease{
		b: b, sess: w.sess, q: q, name: q.name, kind: w.claim.Kind, holder: w.holder, owner: w.claim.Owner,
		fence: a.fence, annotation: w.annotation, since: time.Now(), unsure: unsure,
		auto: w.auto, until: until, count: 1,
	}
	q.holder = l
	b.removeLocked(q, w)
	w.sess.leases[l.key()] = l
	b.metrics.held.WithLabelValues(l.kind.String()).Inc()
	b.keeper.Keep(l, l.until)
	w.sess.emitLocked(Granted{ID: w.id, Hold: l.hold(), Validity: w.sess.validityLocked(until), Count: 1, Auto: l.auto})
	b.joinHoldLocked(l)
}

// joinHoldLocked has the other requests of a named holder hold the lock as well: they must not wait for themselves.
func (b *Broker) joinHoldLocked(l *Lease) {
	if strings.HasPrefix(l.holder, "#") {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(l.sess.waiting)) {
		w := l.sess.waiting[id]
		if w.claim.Name != l.name || w.claim.Kind != l.kind || w.holder != l.holder || w.trying {
			continue
		}
		b.removeLocked(l.q, w)
		req := AcquireRequest{Name: l.name, Kind: l.kind, Holder: l.holder, Annotation: w.annotation}
		if !w.auto {
			req.Lease = new(w.lease)
		}
		l.doLocked(func() { b.nest(l, w.id, req) })
	}
}

// answerLocked tells a waiter that it was not granted.
func (b *Broker) answerLocked(w *waiter, e Event) {
	cause := ErrHeld
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
	b.removeLocked(b.queues[w.claim.Name], w)
	b.answerLocked(w, NotGranted{ID: target, Cause: ErrCancelled})
	s.emitLocked(Done{ID: id})
}
