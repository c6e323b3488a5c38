package session

import (
	"math"
	"time"
)

// A heartbeat is answered with a moment before which no auto lease of the session ends. To look at all leases for each
// heartbeat would cost too much: that is done a few times in a TTL, and what is noted in between can only make the
// moment earlier. Times are in ns since the session was opened. A lease that lasts until its max_hold does not count:
// its client knows that end, and the moment would be too early for all others. If there are no others, the moment is
// one session TTL after the last of these ends, no earlier than they are, however long a heartbeat was on its way.

const (
	// fewLeases is how many leases a session may have so that all are looked at each time.
	fewLeases = 16
	// looks is how often in a TTL all leases are looked at, if there are more; near an end up to looks times as often.
	looks = 16
)

// soonest is what is known of the auto leases of a session.
type soonest struct {
	autos  int   // auto leases that count
	first  int64 // none of their validities ends earlier
	lookAt int64 // when they are looked at again
	lasts  int   // auto leases that last until their max_hold
	last   int64 // none of these max_holds ends later
}

// countLocked notes the mode and the validity of a lease.
func (s *Session) countLocked(l Lease) {
	e, t := l.Entry(), l.Terms()
	s.fixLocked(e)
	e.lasts = t.Auto && t.lasts()
	e.auto, e.until = t.Auto && !e.lasts, int64(t.Until.Sub(s.opened))
	if e.lasts {
		s.lasts++
		s.last = max(s.last, e.until)
	}
	if !e.auto {
		return
	}
	if s.autos++; s.autos == 1 || e.until < s.first {
		s.first = e.until
	}
}

// fixLocked notes that a lease is not auto any more.
func (s *Session) fixLocked(e *Entry) {
	if e.auto {
		s.autos--
	}
	if e.lasts {
		s.lasts--
	}
	e.auto, e.lasts = false, false
}

// Soonest is a moment before which no auto lease's validity ends but by its max_hold, zero if there is none.
func (s *Session) Soonest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.soonestLocked()
}

func (s *Session) soonestLocked() time.Time {
	switch {
	case s.autos > 0:
	case s.lasts > 0:
		return s.opened.Add(time.Duration(s.last) + s.TTL()) // a heartbeat that takes longer comes too late
	default:
		return time.Time{}
	}
	if now, pause := int64(time.Since(s.opened)), int64(s.TTL()/looks); len(s.list) <= fewLeases || now >= s.lookAt {
		s.first = s.endLocked(func(e *Entry) bool { return e.auto })
		s.lookAt = now + min(pause, max((s.first-now)/2, pause/looks))
	}
	return s.opened.Add(time.Duration(s.first))
}

// endLocked is the first end of the validity of some leases.
func (s *Session) endLocked(some func(*Entry) bool) int64 {
	first := int64(math.MaxInt64)
	for _, l := range s.list {
		if e := l.Entry(); some(e) {
			first = min(first, e.until)
		}
	}
	return first
}
