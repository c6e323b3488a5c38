package broker

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// AcquireRequest asks for a lock.
type AcquireRequest struct {
	Name       string
	Kind       Kind
	Holder     string         // empty: the request is its own holder
	Wait       *time.Duration // nil: for ever; 0: try once
	Lease      *time.Duration // nil: auto
	Annotation string
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

// driveLocked starts the driver of a queue if somebody waits, nobody here holds the name, and it does not run yet.
//
// The first attempt, which mostly is a grant, needs no goroutine. With any other outcome drive goes on from there.
func (b *Broker) driveLocked(q *queue) {
	if q.driving || q.holder != nil || q.waiters.Len() == 0 || b.closed {
		return
	}
	q.driving = true
	if q.yield {
		b.goDriveLocked(q, nil, attempt{})
		return
	}
	w := q.headLocked()
	c, start := w.claimLocked(), time.Now()
	b.takingLocked()
	b.store.StartAcquire(c, func(g Grant, err error) {
		a := judge(c, start, g, err)
		b.mu.Lock()
		defer b.mu.Unlock()
		defer b.takenLocked()
		if a.err != nil || w.gone {
			b.goDriveLocked(q, w, a)
			return
		}
		w.trying = false
		b.grantLocked(q, w, a)
		q.driving = false
		b.driveLocked(q)
		b.dropIdleLocked(q)
	})
}

func (b *Broker) goDriveLocked(q *queue, w *waiter, a attempt) {
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	b.takeLocked(func() { b.drive(q, w, a) })
}

// drive asks the store on behalf of the heads of a queue, one after the other, until nobody waits or a session of
// this replica holds the name. It begins with an attempt already made for w, if there is one. Only if a head has to
// wait is the name listened to, and then it is tried once more, because the release may have come before the
// listening.
func (b *Broker) drive(q *queue, w *waiter, a attempt) {
	ear := ear{b: b, q: q}
	defer ear.close()
	if w == nil {
		w, a = b.tryNext(q)
	}
	for fails := 0; w != nil; w, a = b.tryNext(q) {
		a = b.insist(a)
		pause := b.conclude(q, w, a)
		switch {
		case pause == 0:
			fails = 0
		case errors.Is(a.err, ErrHeld):
			fails = 0
			ear.sleep(pause)
		default:
			fails++
			ear.rest(backoff(fails))
		}
	}
}

// tryNext makes an attempt for the head of a queue, or ends the driver.
func (b *Broker) tryNext(q *queue) (*waiter, attempt) {
	b.mu.Lock()
	if q.yield {
		q.yield = false
		b.mu.Unlock()
		b.pause(yieldPause)
		b.mu.Lock()
	}
	w := q.headLocked()
	if w == nil || q.holder != nil || b.closed {
		q.driving = false
		b.dropIdleLocked(q)
		b.mu.Unlock()
		return nil, attempt{}
	}
	c := w.claimLocked()
	b.mu.Unlock()
	return w, b.attempt(c)
}

// claimLocked marks a waiter as being tried and is what to ask for now.
func (w *waiter) claimLocked() Claim {
	w.trying = true
	c := w.claim
	c.TTL = max(w.ttlLocked(time.Now()), time.Millisecond)
	return c
}

// attempt is a claim that was made, and its outcome.
type attempt struct {
	claim Claim
	start time.Time
	fence Fence
	err   error
	// unsure says that an earlier one with the same claim was not answered, and may be executed yet.
	unsure bool
}

// attempt makes a claim.
func (b *Broker) attempt(c Claim) attempt {
	start := time.Now()
	g, err := b.store.Acquire(b.ctx, c)
	return judge(c, start, g, err)
}

// judge reads an outcome. A grant whose time is already over when the answer comes is an unknown one.
func judge(c Claim, start time.Time, g Grant, err error) attempt {
	a := attempt{claim: c, start: start, fence: g.Fence, err: err}
	if err == nil && !time.Now().Before(a.until()) {
		a.err = ErrOutcomeUnknown
	}
	return a
}

// until is the end of the validity of what was granted.
func (a attempt) until() time.Time { return a.start.Add(a.claim.TTL - margin(a.claim.TTL)) }

// insist makes a claim once more if the store did not answer.
func (b *Broker) insist(a attempt) attempt {
	if !errors.Is(a.err, ErrOutcomeUnknown) {
		return a
	}
	a = b.attempt(a.claim)
	a.unsure = true
	if a.err != nil && !errors.Is(a.err, ErrOutcomeUnknown) {
		a.err = errors.Join(a.err, ErrOutcomeUnknown)
	}
	return a
}

// conclude gives the outcome of an attempt to the waiter it was made for. It returns how long the driver shall wait
// before the next one, 0 if it need not.
func (b *Broker) conclude(q *queue, w *waiter, a attempt) time.Duration {
	err := a.err
	b.mu.Lock()
	w.trying = false
	w.unsure = w.unsure || a.unsure || errors.Is(err, ErrOutcomeUnknown)
	if w.gone {
		b.mu.Unlock()
		b.forfeit(q, w, a)
		return 0
	}
	defer b.mu.Unlock()
	var held *HeldError
	switch {
	case err == nil:
		b.grantLocked(q, w, a)
		return 0
	case errors.As(err, &held) && !w.try:
		b.parkLocked(q, w)
		return held.pause()
	case w.queued && retriable(err):
		return retryPause
	case held != nil:
		b.removeLocked(q, w)
		b.answerLocked(w, NotGranted{ID: w.id, Cause: ErrHeld, RetryAfter: max(held.RetryAfter, 0), HeldBy: held.HeldBy})
	default:
		b.removeLocked(q, w)
		b.answerLocked(w, Failed{ID: w.id, Err: err})
	}
	return 0
}

// forfeit gives back what an attempt took for a waiter that was answered while it was under way: to the next waiter
// if there is one. A unary caller that knows its lease id may be asking again this moment; its lease is left alone.
func (b *Broker) forfeit(q *queue, w *waiter, a attempt) {
	switch {
	case w.ownID:
	case a.err == nil:
		b.passFor(q, w, a.fence)
		if w.unsure {
			b.settle(w.claim, w.sess)
		}
	case w.unsure:
		b.settle(w.claim, w.sess)
	}
}

func retriable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrStoreFull)
}

// pause is how long to wait for a hold to end by itself.
func (e *HeldError) pause() time.Duration {
	if e.RetryAfter == NoTTL {
		return pollInterval
	}
	return max(min(e.RetryAfter+time.Millisecond, pollInterval), time.Millisecond)
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
