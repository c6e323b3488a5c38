package broker

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Acquire asks for a lock. The answer is Granted, NotGranted or Failed, after Queued if the request has to wait.
//
// A holder that holds the lock already holds it once more. When the store does not answer, the same attempt is made
// once more; if that fails too the answer is ErrOutcomeUnknown and whatever was taken is given back. A request that
// had to wait is not ended by a store that cannot be reached.
func (s *Session) Acquire(id uint64, req request.Acquire) {
	err := s.Admit(id)
	if err == nil {
		err = s.b.rules.Acquire(req)
	}
	if err == nil {
		err = s.names(req)
	}
	switch {
	case err != nil:
	case len(req.InsteadOf) > 0:
		err = s.acquireInstead(id, req)
	default:
		s.acquire(id, req)
	}
	if err != nil {
		s.b.metrics.acquired(req.Kind, err)
		s.Fail(id, err)
	}
}

// acquire begins a request that is in order, or answers why it does not begin.
func (s *Session) acquire(id uint64, req request.Acquire) {
	w := s.newRequest(id, req)
	w.lock()
	defer w.unlock()
	if err := s.routeLocked(w); err != nil {
		s.b.answerLocked(w, session.Failed{ID: id, Err: err})
	}
}

// newRequest is a waiter for all that is asked for, which is traced.
func (s *Session) newRequest(id uint64, req request.Acquire) *waiter {
	w := s.newWaiter(id, req)
	w.several(req)
	w.beginSpan(context.Background(), req.Traceparent)
	return w
}

// routeLocked has a request go its way: to a hold of its holder, or into its queue.
func (s *Session) routeLocked(w *waiter) error {
	b := s.b
	if err := w.overlapLocked(); err != nil {
		return err
	}
	if w.all == nil && named(w.holder) {
		if l := s.leaseLocked(w.Claim.Name, w.Claim.Kind, w.holder); l != nil {
			return s.operateLocked(w, session.Want{}, func() { b.nestLocked(l, w) })
		}
		if w.upgradeLocked() {
			return session.ErrUpgrade
		}
	}
	if l := w.ownWriteLocked(); l != nil {
		return s.operateLocked(w, w.want(), func() { b.beginReadUnderWriteLocked(l, w) })
	}
	if err := s.Wait(w.id, w, w.want()); err != nil {
		return err
	}
	return b.enterLocked(w)
}

// operateLocked has a request wait for an operation on a lease of its holder, if it may.
func (s *Session) operateLocked(w *waiter, want session.Want, begin func()) error {
	err := s.Operable()
	if err == nil {
		err = s.Wait(w.id, w, want)
	}
	if err == nil {
		begin()
	}
	return err
}

// enterLocked puts a request into its queue, or answers it if it does not want to wait for others.
func (b *Broker) enterLocked(w *waiter) error {
	q := b.queueLocked(w.Claim.Name)
	w.q, w.apart = q, false
	busy := b.inTheWayLocked(w)
	if busy != nil && w.Try() {
		b.refuseLocked(w, b.refusalLocked(w, busy.heldHereLocked(w)))
		return nil
	}
	if q.Len() >= b.cfg.Limits.QueueLength {
		b.removeLocked(w)
		return b.metrics.denied("queue", b.cfg.Limits.QueueLength)
	}
	q.Arrive(&w.Waiter)
	if w.ownID {
		w.shard.repeated[w.Claim.Owner] = append(w.shard.repeated[w.Claim.Owner], w)
	}
	switch {
	case busy != nil:
		q.Place(&w.Waiter, time.Now())
		b.parkLocked(w, q.Ahead(&w.Waiter))
	default:
		b.boundLocked(w)
	}
	if busy == nil && q.OvertakesNow(&w.Waiter) && !q.shard.closed {
		b.startLocked(w)
		return nil
	}
	b.driveLocked(q)
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
		b.removeLocked(w)
		w.once(onceAnswer{fence: a.fence(), until: a.until()})
		b.tryRepetitionLocked(w)
		return true
	}
	var one [1]*Lease
	ls := one[:0]
	for i, c := range a.claims() {
		ls = append(ls, b.newLeaseLocked(w, c, a, i))
	}
	if !w.sess.take(w, ls) {
		for _, l := range ls {
			l.q.dropIdleLocked()
		}
		return false
	}
	w.Granted()
	b.metrics.grant(w, a.end)
	for _, l := range ls {
		l.q.holdLocked(l)
		l.q.shard.leases.ReplaceOrInsert(l)
		b.metrics.held[l.kind].Inc()
		b.keeper.Keep(l, l.until)
	}
	w.spanGranted(a.fence())
	b.removeLocked(w) // only now: a queue that nobody needs is dropped
	for _, l := range ls {
		b.joinWaitersLocked(l)
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
	return l
}

// take has a session take what it was granted, and tells it.
func (s *Session) take(w *waiter, ls []*Lease) bool {
	told := session.Granted{ID: w.id, Hold: ls[0].Hold(), Validity: s.Validity(ls[0].until), Count: 1, Auto: w.auto}
	held := []session.Lease{ls[0]}
	for _, l := range ls[1:] {
		told.More, held = append(told.More, l.Hold()), append(held, l)
	}
	return s.Take(w.id, w, held, told)
}

// joinWaitersLocked settles what the holder of a new lease waits for: a named holder must not wait for itself.
func (b *Broker) joinWaitersLocked(l *Lease) {
	if !named(l.holder) {
		return
	}
	for _, w := range l.sess.waitingOf(l.holder) {
		switch {
		case w.all != nil:
			if slices.Contains(w.shards, b.shardNumber(l.name)) {
				b.goTaking(func() { b.joinSeveral(w) }) // it locks the mutexes of other names
			}
		case w.shard != l.q.shard || w.Answered() || w.Asking() || w.apart:
		default:
			b.joinLocked(l, w)
		}
	}
}

// waiting are the requests of a session that wait, in no order.
func waiting(s *session.Session) (ws []*waiter) {
	for _, w := range s.Waits() {
		ws = append(ws, w.(*waiter))
	}
	return ws
}

// waitingOf are the requests of a holder that wait, in the order of their ids.
func (s *Session) waitingOf(holder string) []*waiter {
	ws := slices.DeleteFunc(waiting(s.Session), func(w *waiter) bool { return w.holder != holder })
	slices.SortFunc(ws, func(v, w *waiter) int { return cmp.Compare(v.id, w.id) })
	return ws
}

// joinSeveral refuses a request for several names whose holder has one of them by now.
func (b *Broker) joinSeveral(w *waiter) {
	w.lock()
	defer w.unlock()
	if w.Answered() || w.Asking() {
		return
	}
	if err := w.overlapLocked(); err != nil {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	}
}

// joinLeasesLocked is the same for a waiter for which the store was asked when its holder got a lease. If the store
// granted it, it is settled only if the holder cannot have both; then what it got is to be given back.
func (b *Broker) joinLeasesLocked(w *waiter, granted bool) (settled bool) {
	for _, l := range w.holdersLeasesLocked() {
		if granted && w.all == nil && w.Claim.Kind != l.kind {
			continue
		}
		if b.joinLocked(l, w) {
			return true
		}
	}
	return false
}

// joinLocked settles a waiter whose holder has this lease, and says whether it concerned it.
func (b *Broker) joinLocked(l *Lease, w *waiter) bool {
	switch {
	case w.Answered():
		return false
	case w.all != nil:
		err := w.overlapLocked()
		if err != nil {
			b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
		}
		return err != nil
	case w.Claim.Name != l.name:
		return false
	case w.Claim.Kind == l.kind:
		b.renestLocked(l, w)
	case w.Claim.Kind == lock.Read && l.kind == lock.Write && w.Lined():
		b.outOfQueueLocked(w)
		b.beginReadUnderWriteLocked(l, w)
	case w.upgradeLocked():
		b.refuseLocked(w, session.Failed{ID: w.id, Err: session.ErrUpgrade})
	default:
		return false
	}
	return true
}

// answerLocked tells and counts that a request was not granted. The request has left its queue, see refuseLocked, and
// with its answer it leaves its session: whoever does not find it there finds the answer in the outbox.
func (b *Broker) answerLocked(w *waiter, e session.Event) {
	cause := lock.ErrHeld
	switch e := e.(type) {
	case session.NotGranted:
		cause = e.Cause
	case session.Failed:
		cause = e.Err
	}
	b.metrics.acquired(w.Claim.Kind, cause)
	w.spanRefused(cause)
	if w.sess != nil {
		w.sess.Conclude(w.id, w, e)
		return
	}
	w.once(onceAnswer{refused: e})
}

// Cancel ends the wait of a request, and says whether it waited.
func (w *waiter) Cancel() bool {
	w.lock()
	defer w.unlock()
	if w.Answered() {
		return false
	}
	w.b.removeLocked(w)
	w.b.answerLocked(w, session.NotGranted{ID: w.id, Cause: session.ErrCancelled})
	return true
}

// Withdraw ends it without an answer: its session has ended here.
func (w *waiter) Withdraw() {
	w.lock()
	defer w.unlock()
	if !w.Answered() {
		w.spanRefused(errWithdrawn)
		w.b.removeLocked(w)
		w.sess.Leave(w.id, w)
	}
}
