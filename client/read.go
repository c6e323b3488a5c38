package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
)

var errWrongGrant = fmt.Errorf("%w: a grant of more or less than was asked for", errProtocol)

// read hears the server until the stream ends, or the session has left it.
func (st *stream) read() {
	s := st.session
	var m wire.Response
	for {
		err := st.rpc.RecvMsg(&m)
		if err == nil {
			st.heard.Store(int64(s.client.now()))
			s.late.Store(false)
		}
		if !st.enter(err == nil && m.GetHeartbeatAck() != nil) {
			st.close(errLeft)
			return
		}
		if err != nil {
			st.overAndUnlock(err)
			return
		}
		st.heardLocked()
		st.handleLocked(&m.SessionResponse)
		answers, after := st.answers, st.after
		st.answers, st.after = answers[:0], nil
		s.mu.Unlock()
		m.Free()
		for _, a := range answers { // without mu, which those who are woken want
			a.to <- a.answer
		}
		clear(answers)
		for _, f := range after {
			f()
		}
	}
}

// handleLocked takes one message. The order of messages is kept: a heartbeat's answer speaks of the locks granted
// before it, and of no later ones.
func (st *stream) handleLocked(m *lockdv1.SessionResponse) {
	s := st.session
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Batch:
		for _, inner := range t.Batch.GetResponses() {
			st.handleLocked(inner)
		}
	case *lockdv1.SessionResponse_HeartbeatAck:
		st.ackLocked(t.HeartbeatAck)
	case *lockdv1.SessionResponse_Lost:
		s.lostLocked(t.Lost)
	case *lockdv1.SessionResponse_AtRisk:
		validFor := time.Duration(st.beats.deadline(t.AtRisk.GetValidity()) - s.client.now())
		st.tellLocked(Status{State: AtRisk, ValidFor: max(validFor, 0)})
	case *lockdv1.SessionResponse_Safe:
		st.tellLocked(Status{State: Safe})
	case *lockdv1.SessionResponse_Unlocked:
		st.after = append(st.after, func() { s.client.unlocked(unlockedOf(t.Unlocked), t.Unlocked.GetHold()) })
	case *lockdv1.SessionResponse_Draining:
		st.draining = true
		within := t.Draining.GetReconnectWithin().AsDuration()
		st.after = append(st.after, func() { s.client.streamDraining(st, within) })
		s.leaveIfIdleLocked()
	case *lockdv1.SessionResponse_Closing:
		st.closing = cmp.Or(fromFailure(t.Closing.GetFailure()), errEnded)
	case *lockdv1.SessionResponse_Queued:
		st.queuedLocked(s.pending[m.GetRequestId()], t.Queued)
	case nil:
		// A message of a newer server, which can do without being understood.
	default:
		st.answerLocked(m)
	}
}

func (st *stream) tellLocked(status Status) {
	st.after = append(st.after, func() { st.session.client.tell(status) })
}

// queuedLocked tells a caller its position. The answer follows.
func (st *stream) queuedLocked(c *call, q *lockdv1.Queued) {
	if c == nil {
		return
	}
	c.waits = true
	if c.queued != nil && !c.abandoned {
		st.after = append(st.after, func() { c.queued(int(q.GetPosition())) })
	}
}

// answerLocked gives an answer to its call.
func (st *stream) answerLocked(m *lockdv1.SessionResponse) {
	s := st.session
	st.heardID = max(st.heardID, m.GetRequestId())
	c := s.pending[m.GetRequestId()]
	if c == nil {
		return
	}
	delete(s.pending, m.GetRequestId())
	var a answer
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Granted:
		a.locks, a.err = st.grantedLocked(c, t.Granted)
	case *lockdv1.SessionResponse_Released:
		a.left = t.Released.GetRemaining()
		if c.frees != nil && c.request.GetRelease().GetKeep() > 0 && a.left > 0 {
			c.frees.permits = a.left
		}
	case *lockdv1.SessionResponse_NotGranted:
		a.err = notGranted(c.request.GetAcquire().GetName(), t.NotGranted)
	case *lockdv1.SessionResponse_Extended:
		s.changedLocked(c, st.beats.deadline(t.Extended.GetValidity()))
	case *lockdv1.SessionResponse_Result:
		a.err = c.unlessDone(fromFailure(t.Result.GetFailure()))
		s.unchangedLocked(c, a.err)
	default: // m is used again, what it contains is not
		a.response, a.stream = &lockdv1.SessionResponse{Message: m.GetMessage()}, st
	}
	s.leaveIfIdleLocked()
	switch {
	case c.then != nil:
		st.after = append(st.after, func() { c.then(a) })
	case c.abandoned, c.answer == nil:
	case c.queued != nil: // after the positions that are still to be told
		st.after = append(st.after, func() { c.answer <- a })
	default:
		st.answers = append(st.answers, told{c.answer, a})
	}
}

// unlessDone is the error that a call was answered with. A release that was sent on an earlier stream, too, may have
// been carried out by the replica there, after the one here saw the hold: that the hold is gone is what was asked for.
func (c *call) unlessDone(err error) error {
	gone := errors.Is(err, ErrNotHeld) || errors.Is(err, ErrStale)
	if gone && c.seen && c.frees != nil && c.request.GetRelease().GetKeep() == 0 {
		return nil
	}
	return err
}

func notGranted(name string, n *lockdv1.NotGranted) error {
	switch n.GetCause() {
	case lockdv1.NotGranted_CAUSE_TIMED_OUT:
		return ErrTimedOut
	case lockdv1.NotGranted_CAUSE_CANCELLED:
		return ErrCancelled
	default:
		return HeldErrorOf(name, n)
	}
}

// grantedLocked makes the Locks of a grant, in the order in which they were asked for, or gives everything back if
// nobody wants it any more.
func (st *stream) grantedLocked(c *call, g *lockdv1.Granted) ([]*Lock, error) {
	s, asked := st.session, c.request.GetAcquire()
	right := len(g.GetHolds()) == max(len(asked.GetItems()), 1)
	deadline := st.beats.deadline(g.GetValidity())
	locks := c.room
	for i, hold := range g.GetHolds() {
		l := &Lock{
			session:    s,
			hold:       holdKey{name: hold.GetName(), kind: hold.GetKind(), holder: hold.GetHolder()},
			fence:      hold.GetFence(),
			acquiredBy: hold.GetAcquiredBy(),
			permits:    permitsOf(asked, i),
			granted:    s.client.now(),
			annotation: asked.GetAnnotation(),
			values:     c.values,
			auto:       g.GetAuto(),
		}
		l.deadline.Store(int64(deadline))
		if c.abandoned || !right {
			s.submitLocked(&call{request: l.releaseRequest(), frees: l})
			continue
		}
		s.addLocked(l)
		locks = append(locks, l)
	}
	if !right {
		return nil, errWrongGrant
	}
	return locks, nil
}

// permitsOf is how many permits the i-th lock of a request has.
func permitsOf(a *lockdv1.Acquire, i int) uint32 {
	if items := a.GetItems(); i < len(items) {
		return items[i].GetPermits()
	}
	return a.GetPermits()
}

// addLocked takes a lock in. If its holder has it already, all its Locks live as long as this one.
func (s *session) addLocked(l *Lock) {
	if outer := s.locks[l.hold]; outer != nil {
		l.before = lease{outer.end(), outer.auto}
		for o := range outer.all() {
			o.auto = l.auto
		}
		if l.shortening = outer.shortening; l.shortening != nil { // it may be carried out after this grant
			l.deadline.Store(int64(min(l.end(), outer.end())))
		}
		s.extendedLocked(outer, l.end())
		l.next = s.locks[l.hold]
	}
	s.locks[l.hold] = l
	s.order.add(l)
	s.alarm.set(s.client.now(), l.end())
}

// extendedLocked moves the deadline of a hold, for all its Locks.
func (s *session) extendedLocked(l *Lock, deadline instant) {
	now := s.client.now()
	for same := range s.locks[l.hold].all() {
		s.raiseLocked(same, now, deadline)
	}
}

// shrinkLocked gives a reader's hold the lease that it has without its newest part: each read hold has a lease of its
// own, and the server takes back the newest, whichever Lock is unlocked. Nothing longer is trusted from the moment of
// asking. l is the Lock that goes.
func (s *session) shrinkLocked(l *Lock) {
	first := s.locks[l.hold]
	if l.hold.kind != lockdv1.LockKind_LOCK_KIND_READ || first == l && l.next == nil ||
		!slices.Contains(slices.Collect(first.all()), l) {
		return
	}
	left := first.before
	for newer := first; newer != l; newer = newer.next {
		newer.before = newer.next.before
	}
	for other := range first.all() {
		if other == l {
			continue
		}
		other.auto = left.auto
		if left.deadline < other.end() {
			other.deadline.Store(int64(left.deadline))
			s.order.advance(other)
			s.alarm.set(s.client.now(), left.deadline)
		}
	}
}

// raiseLocked moves a deadline, but a lock whose deadline has passed is lost: a holder may have seen that already.
// While a Shorten is not answered nothing else that the server tells counts: it may have been written before.
func (s *session) raiseLocked(l *Lock, now, deadline instant) {
	switch {
	case l.end() <= now:
		s.expireLocked(l)
	case deadline > l.end() && l.shortening == nil:
		l.deadline.Store(int64(deadline))
	}
}

// ackLocked moves the deadlines of all auto leases.
func (st *stream) ackLocked(ack *lockdv1.HeartbeatAck) {
	if ack.GetValidFor() == nil {
		return
	}
	s := st.session
	now := s.client.now()
	deadline := st.beats.at(ack.GetSentId()) + instant(ack.GetValidFor().AsDuration())
	if soon := instant(st.interval) * 3 / 2; deadline-now < soon {
		st.hastenLocked()
	}
	for _, first := range s.locks {
		for l := range first.all() {
			if l.before.auto && l.shortening == nil {
				l.before.deadline = max(l.before.deadline, deadline)
			}
			if l.auto {
				s.raiseLocked(l, now, deadline)
			}
		}
	}
}

var lostReasons = map[lockdv1.Lost_Reason]LostReason{
	lockdv1.Lost_REASON_EXPIRED:       LostExpired,
	lockdv1.Lost_REASON_FORCED:        LostForced,
	lockdv1.Lost_REASON_DATA_LOSS:     LostData,
	lockdv1.Lost_REASON_SESSION_ENDED: LostSession,
	lockdv1.Lost_REASON_NO_QUORUM:     LostQuorum,
}

// lostLocked ends the locks of a hold. A fence tells an old hold of a holder from its present one.
func (s *session) lostLocked(lost *lockdv1.Lost) {
	hold := lost.GetHold()
	key := holdKey{name: hold.GetName(), kind: hold.GetKind(), holder: hold.GetHolder()}
	reason := cmp.Or(lostReasons[lost.GetReason()], LostExpired)
	for l := range s.locks[key].all() {
		if hold.GetFence() != 0 && l.fence != 0 && hold.GetFence() != l.fence {
			continue
		}
		s.removeLocked(l)
		l.finish(&LostError{Name: key.name, Reason: reason, By: lost.GetBy(), Why: lost.GetWhy()})
	}
	s.leaveIfIdleLocked()
}
