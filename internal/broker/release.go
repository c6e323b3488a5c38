package broker

import (
	"errors"
	"time"
)

// Release gives a hold back, once. The answer is Released or Failed. ErrNotHeld says that the holder did not hold
// the lock, be it that it never did, that it was lost, or that it was released before. When the store does not answer
// the release is repeated; ErrOutcomeUnknown says that it was in vain so far, and goes on in the background until the
// lease has ended by itself.
func (s *Session) Release(id uint64, h Hold) {
	s.withLease(id, h, nil, func(l *Lease) { s.b.release(l, id) })
}

// withLease runs an operation on the lease that h names, or answers why it cannot.
func (s *Session) withLease(id uint64, h Hold, err error, op func(*Lease)) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if admit := s.admitLocked(id); admit != nil {
		err = admit
	}
	if err == nil {
		err = b.checkNameKind(h.Name, h.Kind)
	}
	l := s.leases[holdKey{h.Name, h.Kind, h.Holder}]
	switch {
	case err != nil:
	case l == nil:
		err = ErrNotHeld
	case h.Fence != 0 && h.Fence != l.fence:
		err = ErrStale
	default:
		err = l.requestLocked(func() { op(l) })
	}
	if err != nil {
		s.emitLocked(Failed{ID: id, Err: err})
	}
}

// release runs as an operation of the lease.
func (b *Broker) release(l *Lease, id uint64) {
	b.mu.Lock()
	s := l.sess
	if l.over {
		s.emitLocked(Failed{ID: id, Err: ErrNotHeld})
		b.mu.Unlock()
		return
	}
	if l.count > 1 {
		b.mu.Unlock()
		b.releaseOne(l, id)
		return
	}
	l.overLocked()
	b.mu.Unlock()
	err := b.giveUp(l)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		s.emitLocked(Failed{ID: id, Err: err})
		return
	}
	s.emitLocked(Released{ID: id})
}

// giveUp frees the name of a lease that is over but still in the store, or passes it on. What fails is tried again in
// the background.
func (b *Broker) giveUp(l *Lease) error {
	err := b.pass(l.q, Return{Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence})
	if retriable(err) {
		b.mu.Lock()
		defer b.mu.Unlock()
		end := l.until
		if l.mayLast.After(end) {
			end = l.mayLast
		}
		c := Claim{Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, TTL: max(time.Until(end), 0)}
		b.settleLocked(c, l.sess, 0)
	}
	return err
}

// releaseOne gives back one of several holds of a holder.
func (b *Broker) releaseOne(l *Lease, id uint64) {
	remaining := l.count - 1
	r := Return{Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, Remaining: remaining}
	_, _, err := b.giveBack(r)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case l.over:
		l.sess.emitLocked(Failed{ID: id, Err: ErrNotHeld})
	case err == nil:
		l.count = remaining
		l.sess.emitLocked(Released{ID: id, Remaining: remaining})
	case errors.Is(err, ErrNotHeld), errors.Is(err, ErrStale):
		l.loseLocked(LostForced)
		l.sess.emitLocked(Failed{ID: id, Err: ErrNotHeld})
	default:
		l.sess.emitLocked(Failed{ID: id, Err: err})
	}
}

// giveBack makes a Return, and repeats it if the store does not answer. A hold that is not there any more at the
// repetition was given back by the first call. It says when the first call began: that one may have handed the name
// over, and repeating it does not prolong the successor's hold.
func (b *Broker) giveBack(r Return) (res Returned, start time.Time, err error) {
	unsure := false
	start = time.Now()
	for range 3 {
		res, err = b.store.Release(b.ctx, r)
		if unsure && r.Remaining == 0 && errors.Is(err, ErrNotHeld) {
			return Returned{}, start, nil
		}
		if !errors.Is(err, ErrOutcomeUnknown) && (!unsure || !errors.Is(err, ErrUnavailable)) {
			return res, start, err
		}
		unsure = true
	}
	return res, start, errors.Join(err, ErrOutcomeUnknown)
}

// pass gives a hold back and lets the queue move on: the name is handed to the next waiter here, in the same store
// call, or freed. If the next waiter leaves while it is given the name, its hold is passed on in turn, and if that
// fails, it is tried again in the background. The error is that of the first hold.
//
// When the outcome is unknown, the next waiter stays the head of the queue and asks for itself: if it was handed the
// name it gets the same fence.
func (b *Broker) pass(q *queue, r Return) error {
	var first error
	var left *waiter // whose hold is given back now
	for {
		next := b.successor(q, &r)
		res, start, err := b.giveBack(r)
		switch {
		case left == nil:
			first = err
		case retriable(err):
			b.settle(left.claim, left.sess)
		}
		if !b.moveOn(q, next, &r, res, start, err) {
			return first
		}
		left = next
	}
}

// successor chooses whom to hand the name to and notes it in r; nil if nobody.
func (b *Broker) successor(q *queue, r *Return) *waiter {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Next = nil
	now := time.Now()
	w := q.successorLocked(b.cfg.HandoffBurst, now)
	if w == nil || w.claim.Kind != r.Kind {
		return nil
	}
	w.trying = true
	r.Next = &Successor{Owner: w.claim.Owner, TTL: w.ttlLocked(now)}
	return w
}

// moveOn continues a queue after its name was given back. It returns true, with r changed to the hold that next got,
// if that has to be given back too.
func (b *Broker) moveOn(q *queue, next *waiter, r *Return, res Returned, start time.Time, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q.holder = nil
	defer b.dropIdleLocked(q)
	defer b.driveLocked(q)
	if next == nil {
		q.yield = q.burst >= b.cfg.HandoffBurst && res.Listeners > 0
		q.burst = 0
		return false
	}
	next.trying = false
	next.unsure = next.unsure || errors.Is(err, ErrOutcomeUnknown)
	late := !time.Now().Before(start.Add(r.Next.TTL - margin(r.Next.TTL)))
	switch {
	case next.gone && next.ownID:
	case next.gone && res.HandedOver > 0:
		*r = Return{Name: q.name, Kind: r.Kind, Owner: next.claim.Owner, Fence: res.HandedOver}
		q.holder = takenOver
		return true
	case next.gone && next.unsure:
		b.settleLocked(next.claim, next.sess, 0)
	case res.HandedOver > 0 && !late && err == nil:
		q.burst++
		b.metrics.handoff.Observe(time.Since(start).Seconds())
		b.grantLocked(q, next, start, Grant{Fence: res.HandedOver, TTL: r.Next.TTL})
	}
	return false
}

// takenOver stands for the holder of a name that is being passed on and belongs to nobody.
var takenOver = new(Lease)

// settle and settleLocked give back in the background what an attempt with an unknown outcome may have taken or not
// given back. No other request has the same owner, so nothing of it can hit another hold, however late it comes.
func (b *Broker) settle(c Claim, s *Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settleLocked(c, s, 0)
}

func (b *Broker) settleLocked(c Claim, s *Session, after time.Duration) {
	if b.closed {
		return
	}
	if s != nil {
		s.unsettled++
	}
	b.takeLocked(func() {
		b.pause(after)
		b.compensate(c)
		if s == nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		s.unsettled--
	})
}

// compensate releases until the store acknowledges it, and once more a little later, in case the command that is to
// be undone was still under way. It gives up when a lease taken at its beginning would have ended by itself.
func (b *Broker) compensate(c Claim) {
	end := time.Now().Add(max(c.TTL, b.cfg.SessionTTL))
	again := false
	for n := 1; b.ctx.Err() == nil && time.Now().Before(end); n++ {
		_, err := b.store.Release(b.ctx, Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: c.Fence})
		switch {
		case retriable(err):
			b.pause(backoff(n))
		case again:
			return
		default:
			again, n = true, 0
			b.pause(settlePause)
		}
	}
}
