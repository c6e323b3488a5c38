package client

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// holdKey is how a hold is known inside a session.
type holdKey struct {
	name   string
	kind   lockdv1.LockKind
	holder string
}

func keyOf(h *lockdv1.Hold) holdKey {
	return holdKey{name: h.GetName(), kind: h.GetKind(), holder: h.GetHolder()}
}

// hold is what a holder has of a name. The Locks of a named Holder share one hold, and so its lease.
type hold struct {
	key      holdKey
	deadline atomic.Int64 // instant; moves earlier only by Shorten

	// Guarded by Client.mu.
	most       instant  // by MaxHold: no deadline is later; 0 if there is no such bound
	locks      []*Lock  // those that have not ended, in the order of their grants
	buffer     [1]*Lock // for locks
	auto       bool
	shortening *call   // the last Shorten that is not answered
	rings      instant // its entry in session.alarms that counts; 0 if it has none
}

func (h *hold) end() instant { return instant(h.deadline.Load()) }

// last is the deadline that a validity gives, at most the end by MaxHold. A validity that lasts until that end gives
// the end that is known since the grant: it means the same moment, but its message may have been on its way for longer.
func (h *hold) last(v validity) instant {
	switch {
	case h.most == 0:
		return v.deadline
	case v.most:
		return h.most
	default:
		return min(v.deadline, h.most)
	}
}

// addLocked adds a Lock that was granted with validity v. most is its end by MaxHold, 0 if there is none. auto says
// whether the server renews its lease.
func (s *session) addLocked(l *Lock, v validity, most instant, auto bool) {
	h := s.holds[l.hold.key]
	if h != nil && h.end() <= s.client.now() {
		s.expireLocked(h)
		h = nil
	}
	if h == nil {
		h = l.hold
		h.locks, h.auto, h.most = h.buffer[:0], auto, most
		h.deadline.Store(int64(h.last(v)))
		s.holds[h.key] = h
	} else {
		l.hold, h.auto, h.most = h, auto, cmp.Or(h.most, most)
		s.raiseLocked(h, v)
	}
	h.locks = append(h.locks, l)
	s.alarmLocked(h)
}

// removeLocked takes a Lock out of its hold and says whether it was there. The other Locks of the hold stay held.
func (s *session) removeLocked(l *Lock) bool {
	h := l.hold
	i := slices.Index(h.locks, l)
	if i < 0 {
		return false
	}
	h.locks = slices.Delete(h.locks, i, i+1)
	if len(h.locks) == 0 {
		delete(s.holds, h.key)
	}
	return true
}

// raiseLocked moves a hold's deadline later. A hold whose deadline has passed is lost all the same: its user may have
// seen that already. While a Shorten has no answer the deadline stays: the server may have sent v before it had the
// Shorten.
func (s *session) raiseLocked(h *hold, v validity) {
	switch deadline := h.last(v); {
	case h.end() <= s.client.now():
		s.expireLocked(h)
	case deadline > h.end() && h.shortening == nil:
		h.deadline.Store(int64(deadline))
	}
}

// renewedLocked notes until when all auto leases are valid.
func (s *session) renewedLocked(deadline instant) {
	for _, h := range s.holds {
		if h.auto {
			s.raiseLocked(h, validity{deadline: deadline})
		}
	}
}

// expireLocked ends a hold whose deadline has passed. The server may still be renewing it, so it is released. The loss
// is one by MaxHold if that made the deadline.
func (s *session) expireLocked(h *hold) {
	for _, l := range h.locks {
		s.submitLocked(l.releaseCall())
	}
	lost := &LostError{Name: h.key.name, Reason: LostDeadline}
	if h.most != 0 && h.end() >= h.most {
		lost.Reason, lost.MaxHold = LostExpired, true
	}
	s.endLocked(h, 0, lost)
}

// endLocked ends the Locks of a hold, which may be nil, that have this fence; a fence of 0 matches all. The fence tells
// a holder's former hold from its present one.
func (s *session) endLocked(h *hold, fence uint64, cause error) {
	if h == nil {
		return
	}
	for _, l := range slices.Clone(h.locks) {
		if fence == 0 || l.fence == 0 || fence == l.fence {
			s.removeLocked(l)
			l.finish(cause)
		}
	}
	s.leaveIfIdleLocked()
}

// lostLocked ends the Locks of a hold that the server lost.
func (s *session) lostLocked(lost *lockdv1.Lost) {
	key := keyOf(lost.GetHold())
	reason := LostReason(strings.ToLower(strings.TrimPrefix(lost.GetReason().String(), "REASON_")))
	s.endLocked(s.holds[key], lost.GetHold().GetFence(), &LostError{
		Name: key.name, Reason: reason, By: lost.GetBy(), Why: lost.GetWhy(),
		MaxHold: lost.GetCause() == lockdv1.Lost_CAUSE_MAX_HOLD,
	})
}
