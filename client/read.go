package client

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
)

var errWrongGrant = fmt.Errorf("%w: a grant of more or less than was asked for", errProtocol)

// read hears the server until the stream ends, then ends the session.
func (s *session) read() {
	var m wire.Response
	for {
		if err := s.stream.RecvMsg(&m); err != nil {
			s.client.sessionOver(s, s.why(err))
			return
		}
		s.heard.Store(int64(s.client.now()))
		s.late.Store(false)
		s.mu.Lock()
		s.handleLocked(&m.SessionResponse)
		answers, after := s.answers, s.after
		s.answers, s.after = answers[:0], nil
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

// why finds the best explanation for the end of the stream: our own, the server's, that of gRPC.
func (s *session) why(err error) error {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	return cmp.Or(context.Cause(s.ctx), closing, fromStream(err))
}

// handleLocked takes one message. The order of messages is kept: a heartbeat's answer speaks of the locks granted
// before it, and of no later ones.
func (s *session) handleLocked(m *lockdv1.SessionResponse) {
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Batch:
		for _, inner := range t.Batch.GetResponses() {
			s.handleLocked(inner)
		}
	case *lockdv1.SessionResponse_HeartbeatAck:
		s.ackLocked(t.HeartbeatAck)
	case *lockdv1.SessionResponse_Lost:
		s.lostLocked(t.Lost)
	case *lockdv1.SessionResponse_AtRisk:
		validFor := time.Duration(s.beats.deadline(t.AtRisk.GetValidity()) - s.client.now())
		s.tellLocked(Status{State: AtRisk, ValidFor: max(validFor, 0)})
	case *lockdv1.SessionResponse_Safe:
		s.tellLocked(Status{State: Safe})
	case *lockdv1.SessionResponse_Unlocked:
		s.after = append(s.after, func() { s.client.unlocked(unlockedOf(t.Unlocked)) })
	case *lockdv1.SessionResponse_Draining:
		s.draining = true
		s.after = append(s.after, func() { s.client.sessionDraining(s) })
		s.leaveIfIdleLocked()
	case *lockdv1.SessionResponse_Closing:
		s.closing = cmp.Or(fromProto(t.Closing.GetStatus()), errEnded)
	case *lockdv1.SessionResponse_Queued:
		s.queuedLocked(s.pending[m.GetRequestId()], t.Queued)
	case nil:
		// A message of a newer server, which can do without being understood.
	default:
		s.answerLocked(m)
	}
}

func (s *session) tellLocked(st Status) {
	s.after = append(s.after, func() { s.client.tell(st) })
}

// queuedLocked tells a caller its position. The answer follows.
func (s *session) queuedLocked(c *call, q *lockdv1.Queued) {
	if c != nil && c.queued != nil && !c.abandoned {
		s.after = append(s.after, func() { c.queued(int(q.GetPosition())) })
	}
}

// answerLocked gives an answer to its call.
func (s *session) answerLocked(m *lockdv1.SessionResponse) {
	s.heardID = max(s.heardID, m.GetRequestId())
	c := s.pending[m.GetRequestId()]
	if c == nil {
		return
	}
	delete(s.pending, m.GetRequestId())
	var a answer
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Granted:
		a.locks, a.err = s.grantedLocked(c, t.Granted)
	case *lockdv1.SessionResponse_Released:
		a.left = t.Released.GetRemaining()
	case *lockdv1.SessionResponse_NotGranted:
		a.err = notGranted(c.request.GetAcquire().GetName(), t.NotGranted)
	case *lockdv1.SessionResponse_Extended:
		s.changedLocked(c, s.beats.deadline(t.Extended.GetValidity()))
	case *lockdv1.SessionResponse_Result:
		a.err = fromProto(t.Result.GetStatus())
		s.unchangedLocked(c, a.err)
	default: // m is used again, what it contains is not
		a.response = &lockdv1.SessionResponse{Message: m.GetMessage()}
	}
	s.leaveIfIdleLocked()
	switch {
	case c.then != nil:
		s.after = append(s.after, func() { c.then(a) })
	case c.queued != nil && !c.abandoned: // after the positions that are still to be told
		s.after = append(s.after, func() { c.answer <- a })
	case !c.abandoned:
		s.answers = append(s.answers, told{c.answer, a})
	}
}

func notGranted(name string, n *lockdv1.NotGranted) error {
	switch n.GetCause() {
	case lockdv1.NotGranted_CAUSE_TIMED_OUT:
		return ErrTimedOut
	case lockdv1.NotGranted_CAUSE_CANCELLED:
		return ErrCancelled
	default:
		return &HeldError{Name: cmp.Or(n.GetName(), name), RetryAfter: n.GetRetryAfter().AsDuration(), HeldBy: n.GetHeldBy()}
	}
}

// grantedLocked makes the Locks of a grant, in the order in which they were asked for, or gives everything back if
// nobody wants it any more.
func (s *session) grantedLocked(c *call, g *lockdv1.Granted) ([]*Lock, error) {
	right := len(g.GetHolds()) == max(len(c.request.GetAcquire().GetItems()), 1)
	deadline := s.beats.deadline(g.GetValidity())
	locks := c.room
	for _, hold := range g.GetHolds() {
		l := &Lock{
			session: s,
			hold:    holdKey{name: hold.GetName(), kind: hold.GetKind(), holder: hold.GetHolder()},
			fence:   hold.GetFence(),
			values:  c.values,
			auto:    g.GetAuto(),
		}
		l.deadline.Store(int64(deadline))
		if c.abandoned || !right {
			s.submitLocked(&call{request: l.releaseRequest()})
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

// shrinkLocked gives a reader's hold the lease that it has without its newest part: each read hold has a lease of its own,
// and the server takes back the newest, whichever Lock is unlocked. Nothing longer is trusted from the moment of asking. l
// is the Lock that goes.
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

// raiseLocked moves a deadline, but a lock whose deadline has passed is lost: a holder may have seen that already. While
// a Shorten is not answered nothing else that the server tells counts: it may have been written before.
func (s *session) raiseLocked(l *Lock, now, deadline instant) {
	switch {
	case l.end() <= now:
		s.expireLocked(l)
	case deadline > l.end() && l.shortening == nil:
		l.deadline.Store(int64(deadline))
	}
}

// ackLocked moves the deadlines of all auto leases.
func (s *session) ackLocked(ack *lockdv1.HeartbeatAck) {
	if ack.GetValidFor() == nil {
		return
	}
	now := s.client.now()
	deadline := s.beats.at(ack.GetSentId()) + instant(ack.GetValidFor().AsDuration())
	if soon := instant(s.interval) * 3 / 2; deadline-now < soon {
		s.hastenLocked()
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
		l.finish(&LostError{Name: key.name, Reason: reason})
	}
	s.leaveIfIdleLocked()
}
