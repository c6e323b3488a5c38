package broker

import (
	"cmp"
	"time"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Acquire asks for a lock. The answer is Granted, NotGranted or Failed, after Queued if the request has to wait.
//
// A holder that holds the lock already holds it once more. If package settle, which asks a single store twice, does not
// learn the outcome either, the answer is ErrOutcomeUnknown and whatever was taken is released. Neither that nor an
// unreachable store ends a request that had to wait: the store is asked for it again.
func (s *Session) Acquire(id uint64, req request.Acquire) {
	err := s.Admit(id)
	if err == nil {
		err = s.b.rules.Acquire(req)
	}
	if err == nil {
		err = s.names(req)
	}
	instead := len(req.InsteadOf) > 0
	if err == nil && instead {
		err = cmp.Or(s.checkInstead(req.InsteadOf), s.Operable())
	}
	if err != nil {
		s.b.metrics.acquired(req.Kind, err)
		s.Fail(id, err)
		return
	}
	w := s.newWaiter(id, req)
	w.lock()
	defer w.unlock()
	if instead {
		err = s.insteadLocked(w, req)
	} else {
		err = s.routeLocked(w)
	}
	if err != nil {
		s.b.answerLocked(w, session.Failed{ID: id, Err: err})
	}
}

// names counts the names of a request against the limits of its tenant.
func (s *Session) names(req request.Acquire) error {
	t, tenants := s.Client().Tenant, s.b.tenants
	err := tenants.Name(t, req.Name)
	for i := 0; i < len(req.More) && err == nil; i++ {
		err = tenants.Name(t, req.More[i].Name)
	}
	return err
}

// routeLocked sends a request to a hold that its holder has already, or into its queue.
func (s *Session) routeLocked(w *waiter) error {
	if err := w.overlapLocked(); err != nil {
		return err
	}
	own, want := w.leaseOfHolderLocked(), w.want()
	if own != nil {
		if w.upgrades(own) {
			return session.ErrUpgrade
		}
		if err := s.Operable(); err != nil {
			return err
		}
		if own.kind == w.Claim.Kind {
			want = session.Want{}
		}
	}
	if err := s.waitLocked(w, want); err != nil {
		return err
	}
	if own != nil {
		s.b.useLeaseLocked(own, w)
		return nil
	}
	return s.b.enterLocked(w)
}

// waitLocked notes a request in its session, if its client may lock all of its names. The rights are looked at when
// Review can find the request already, so that no change of them is missed.
func (s *Session) waitLocked(w *waiter, want session.Want) error {
	if err := s.AddWaiter(w.id, w, want); err != nil {
		return err
	}
	if err := w.forbidden(s.Identity()); err != nil {
		s.Leave(w.id, w)
		return err
	}
	return nil
}

// enterLocked puts a request into its queue, or answers it if it does not want to wait for others.
func (b *Broker) enterLocked(w *waiter) error {
	q := b.queueLocked(w.Claim.Name)
	w.q, w.apart = q, false
	busy := b.inTheWayLocked(w)
	follows := busy == q && b.followsLocked(q, w)
	if busy != nil && w.Try() && !follows {
		b.refuseLocked(w, b.refusalLocked(w, busy.heldHereLocked(w)))
		return nil
	}
	if q.Len() >= b.cfg.Limits.QueueLength {
		b.removeLocked(w)
		return b.metrics.denied("queue", b.cfg.Limits.QueueLength)
	}
	q.Arrive(&w.Waiter)
	w.listByHolderLocked()
	if w.ownID {
		w.shard.repeated[w.Claim.Owner] = append(w.shard.repeated[w.Claim.Owner], w)
	}
	if busy != nil && !follows {
		q.Place(&w.Waiter, time.Now())
		b.parkLocked(w, q.Ahead(&w.Waiter))
	} else {
		b.boundLocked(w)
	}
	if busy == nil && q.OvertakesNow(&w.Waiter) && !q.shard.closed {
		b.startLocked(w, time.Now())
	} else {
		b.driveLocked(q)
	}
	return nil
}

// heldHereLocked is what is known here of who holds the name, for a request that does not want to wait.
func (q *queue) heldHereLocked(w *waiter) *lock.HeldError {
	held := &lock.HeldError{}
	if w.all != nil {
		held.Name = q.Name()
	}
	if q.holder != nil {
		held.RetryAfter, held.HeldBy = time.Until(q.holder.until), q.holder.owner
	}
	return held
}

// grantLocked answers a waiter with what it asked for, and says whether it was still there to have it. A session's
// lease is kept from now on; a unary one ends by itself.
func (b *Broker) grantLocked(w *waiter, a attempt) bool {
	if w.sess == nil {
		w.Granted()
		b.metrics.grant(w, a.end)
		w.spanGranted(a.fence())
		w.happened(history.Granted, w.Claim, a.end, history.Event{Fence: a.fence(), Lease: w.lease})
		b.removeLocked(w)
		w.once <- onceAnswer{fence: a.fence(), until: a.until()}
		b.tryRepetitionLocked(w)
		return true
	}
	var one [1]*Lease
	var oneHeld [1]session.Lease
	ls, held := one[:0], oneHeld[:0]
	for i, c := range a.claims() {
		ls = append(ls, b.newLeaseLocked(w, c, a, i))
		held = append(held, ls[i])
	}
	if !w.sess.Take(w.id, w, held) {
		for _, l := range ls {
			l.q.dropIdleLocked()
		}
		return false
	}
	w.Granted()
	w.succeeded = false
	b.metrics.grant(w, a.end)
	for _, l := range ls {
		l.q.holdLocked(l)
		l.q.shard.leases.ReplaceOrInsert(l)
		b.metrics.held[l.kind].Inc()
		b.keepNewLocked(l)
		l.happened(history.Granted, a.end, history.Event{Waited: a.end.Sub(w.firstAsked()), Lease: w.lease})
	}
	w.spanGranted(a.fence())
	b.removeLocked(w) // only now: a queue that nobody needs is dropped
	if named(w.holder) {
		b.settleWaitersOfLocked(ls)
	}
	return true
}

// newLeaseLocked is the lease of the i-th name of a granted request.
func (b *Broker) newLeaseLocked(w *waiter, c lock.Claim, a attempt, i int) *Lease {
	l := &Lease{
		b: b, sess: w.sess, q: b.queueLocked(c.Name), name: c.Name, kind: c.Kind, holder: w.holder, request: w.id,
		owner: c.Owner,
		fence: a.grants[i].Fence, taken: c.Permits, permits: c.Permits, since: b.stamp(a.end),
		auto: w.auto, until: a.until(), seen: b.stamp(a.start), count: 1, extras: nothing,
	}
	if w.annotation != "" {
		l.own().annotation = w.annotation
	}
	if w.actor != "" && w.actor != w.sess.Actor() {
		l.own().actor = w.actor
	}
	l.limitLocked(a.start, w.maxHold)
	if a.end.Sub(a.start) > lock.Drift(a.claim.TTL) { // the store may have carried it out late, and keep it longer
		l.own().extended = true
	}
	return l
}

// answerLocked tells and counts that a request was not granted. The request has left its queue, see refuseLocked. It
// leaves its session in the moment of the answer: whoever does not find it there finds the answer in the outbox.
func (b *Broker) answerLocked(w *waiter, e session.Event) {
	cause := lock.ErrHeld
	switch e := e.(type) {
	case session.NotGranted:
		cause = e.Cause
	case session.Failed:
		cause = e.Err
	}
	b.metrics.acquired(w.Claim.Kind, cause)
	w.refused(cause)
	if w.sess != nil {
		w.sess.Conclude(w.id, w, e)
		return
	}
	w.once <- onceAnswer{refused: e}
}
