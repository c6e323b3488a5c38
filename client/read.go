package client

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

var (
	errWrongGrant  = fmt.Errorf("%w: a grant of something else than was asked for", errProtocol)
	errWrongAnswer = fmt.Errorf("%w: an answer to something else than was asked", errProtocol)
)

// read hears the server until the stream ends, or the session has left it.
func (st *stream) read() {
	s := st.session
	m := &lockdv1.SessionResponse{}
	for {
		err := st.rpc.RecvMsg(m)
		if err == nil {
			st.heard.Store(int64(s.client.now()))
		}
		if !st.enter(err == nil && m.GetHeartbeatAck() != nil) {
			st.close(errLeft)
			return
		}
		if err != nil {
			st.overLocked(err)
			s.mu.Unlock()
			return
		}
		if st.silent { // it is heard again
			st.silent = false
			s.client.tellLocked(Status{State: Connected, Session: s.id})
		}
		st.handleLocked(m)
		s.mu.Unlock()
		if grpc.EnableTracing { // it formats messages later
			m = &lockdv1.SessionResponse{}
		} else {
			m.ResetVT()
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
		validFor := time.Duration(st.beats.validity(t.AtRisk.GetValidity()).deadline - s.client.now())
		s.client.tellLocked(Status{State: AtRisk, ValidFor: max(validFor, 0)})
	case *lockdv1.SessionResponse_Safe:
		s.client.tellLocked(Status{State: Safe})
	case *lockdv1.SessionResponse_Unlocked:
		s.client.unlockedLocked(unlockedOf(t.Unlocked), t.Unlocked.GetHold())
	case *lockdv1.SessionResponse_Unwatched:
		s.client.endWatchLocked(t.Unwatched.GetName(), cmp.Or(fromFailure(t.Unwatched.GetFailure()), ErrForbidden))
	case *lockdv1.SessionResponse_Draining:
		st.drainingLocked(told(t.Draining.GetReconnectWithin()))
	case *lockdv1.SessionResponse_Closing:
		st.closing = cmp.Or(fromFailure(t.Closing.GetFailure()), errEnded)
	case *lockdv1.SessionResponse_Queued:
		st.queuedLocked(s.pending[m.GetRequestId()], t.Queued)
	case nil:
		// A message of a newer server, which a client may ignore.
	default:
		st.answerLocked(m)
	}
}

// drainingLocked has the session leave the replica. Only the first Draining on a stream counts.
func (st *stream) drainingLocked(within time.Duration) {
	if st.draining {
		return
	}
	st.draining = true
	if st.epoch > 1 { // each new stream may have to be left again, while the token is about to expire
		st.countLocked()
	}
	st.session.client.drainingLocked(st.session, within)
	st.session.leaveIfIdleLocked()
}

// queuedLocked has the caller of a request told its position, and who is in the way. The answer follows.
func (st *stream) queuedLocked(c *call, q *lockdv1.Queued) {
	if c == nil || c.asks == nil {
		return
	}
	news := queued{position: int(q.GetPosition()), again: c.waits}
	if q.GetHeldBy() != "" || q.GetClient() != "" {
		news.held = heldBy(c.request.GetAcquire().GetName(), q)
	}
	c.waits = true
	for c.queued != nil {
		select {
		case c.queued <- news:
			return
		default:
		}
		select {
		case <-c.queued: // the caller is slow: the oldest news is dropped
		default:
		}
	}
}

// answerLocked gives an answer to its call.
func (st *stream) answerLocked(m *lockdv1.SessionResponse) {
	s := st.session
	c := s.pending[m.GetRequestId()]
	if c == nil {
		return
	}
	delete(s.pending, m.GetRequestId())
	if c.extends != nil && c.extends.hold.shortening == c { // a later one may still be under way
		c.extends.hold.shortening = nil
	}
	a := answer{err: errWrongAnswer}
	if c.answeredBy(m) {
		a = st.answerOfLocked(c, m)
	}
	s.leaveIfIdleLocked()
	if !c.abandoned {
		c.replyLocked(a)
	}
}

// answeredBy says whether a message can answer a call. A failure always can.
func (c *call) answeredBy(m *lockdv1.SessionResponse) bool {
	if m.GetResult().GetFailure().GetCode() != 0 {
		return true
	}
	switch c.request.GetMessage().(type) {
	case *lockdv1.SessionRequest_Acquire:
		return m.GetGranted() != nil || m.GetNotGranted() != nil
	case *lockdv1.SessionRequest_Release:
		return m.GetReleased() != nil
	case *lockdv1.SessionRequest_Extend:
		return m.GetExtended() != nil
	case *lockdv1.SessionRequest_Look:
		return m.GetLooked() != nil
	case *lockdv1.SessionRequest_ListHolds:
		return m.GetHoldList() != nil
	case *lockdv1.SessionRequest_SetLimit:
		return m.GetLimitSet() != nil
	default:
		return m.GetResult() != nil
	}
}

// answerOfLocked does what the answer to a call says.
func (st *stream) answerOfLocked(c *call, m *lockdv1.SessionResponse) (a answer) {
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Granted:
		a.locks, a.err = st.grantedLocked(c, t.Granted)
	case *lockdv1.SessionResponse_Released:
		a.left = t.Released.GetRemaining()
		if c.frees != nil && !c.freesAll() {
			c.frees.permits = a.left
		}
	case *lockdv1.SessionResponse_NotGranted:
		a.err = notGranted(c.request.GetAcquire().GetName(), t.NotGranted)
	case *lockdv1.SessionResponse_Extended:
		st.session.changedLocked(c, st.beats.validity(t.Extended.GetValidity()))
	case *lockdv1.SessionResponse_Result:
		a.err = fromFailure(t.Result.GetFailure())
		// A release that was also sent on an earlier stream may have been carried out by the replica there, after this one
		// saw the hold. That the hold is gone is what was asked for.
		if c.seen && c.freesAll() && is(a.err, ErrNotHeld, ErrStale) {
			a.err = nil
		}
	default: // m is used again, what it contains is not
		a.response, a.stream = &lockdv1.SessionResponse{Message: m.GetMessage()}, st
	}
	return a
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

// grants says whether holds are what was asked for.
func grants(holds []*lockdv1.Hold, asked *lockdv1.Acquire) bool {
	items := asked.GetItems()
	if len(items) == 0 {
		return len(holds) == 1 && holds[0].GetName() == asked.GetName() && holds[0].GetKind() == asked.GetKind()
	}
	return slices.EqualFunc(holds, items, func(h *lockdv1.Hold, i *lockdv1.AcquireItem) bool {
		return h.GetName() == i.GetName() && h.GetKind() == i.GetKind()
	})
}

// grantedLocked makes the Locks of a grant, in the order in which they were asked for, or releases all if the call was
// abandoned or asked for something else.
func (st *stream) grantedLocked(c *call, g *lockdv1.Granted) ([]*Lock, error) {
	s, asked := st.session, c.request.GetAcquire()
	items := asked.GetItems()
	right := grants(g.GetHolds(), asked)
	valid, most := st.beats.validity(g.GetValidity()), st.beats.most(g.GetValidity(), g.GetMaxHold())
	values, locks := c.asks.values, c.asks.buffer[:0]
	var set *Locks
	if c.asks.several {
		set = &Locks{ending: ending{session: s, values: values}}
		set.of = set
	}
	for i, h := range g.GetHolds() {
		l := s.newLock(values, h)
		l.set, l.annotation, l.permits = set, asked.GetAnnotation(), asked.GetPermits()
		if c.abandoned || !right {
			s.submitLocked(l.releaseCall())
			continue
		}
		if len(items) > 0 {
			l.permits = items[i].GetPermits()
		}
		s.addLocked(l, valid, most, g.GetAuto())
		locks = append(locks, l)
	}
	if set != nil {
		set.all = locks
	}
	if !right {
		return nil, errWrongGrant
	}
	return locks, nil
}

// ackLocked moves the deadlines of all auto leases.
func (st *stream) ackLocked(ack *lockdv1.HeartbeatAck) {
	if ack.GetValidFor() == nil {
		return
	}
	s := st.session
	deadline := st.beats.at(ack.GetSentId()) + instant(told(ack.GetValidFor()))
	if soon := instant(st.interval) * 3 / 2; deadline-s.client.now() < soon {
		st.hastenLocked()
	}
	s.renewedLocked(deadline)
}
