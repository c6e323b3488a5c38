package session

import "time"

// A heartbeat is answered with a moment before which no auto lease of the session ends. That is kept while leases are
// renewed, so that nobody has to look at all of them.

const (
	// fewLeases is how many leases a session has to have for that; of fewer all are looked at.
	fewLeases = 16
	// ttlSlots is how many slots a session TTL has. No more than that is told too little.
	ttlSlots = 16
	// earliestSlots are enough for two TTLs.
	earliestSlots = 2 * ttlSlots
)

// earliest is the earliest of many times that change often, in constant time: it counts them in slots. Times are in ns
// since the session was opened.
type earliest struct {
	width int64
	slots [earliestSlots]struct {
		n  int32
		at int64 // of those that were counted here, the earliest
	}
}

// move takes a time from its slot, 0 for none, and counts another one, unless that is 0. It returns its slot.
func (e *earliest) move(from uint8, to int64) uint8 {
	if from > 0 {
		e.slots[from-1].n--
	}
	if to == 0 {
		return 0
	}
	number := uint64(max(to, 0)/e.width) % earliestSlots //nolint:gosec // not negative
	s := &e.slots[number]
	if s.n == 0 || to < s.at {
		s.at = to
	}
	s.n++
	return uint8(number) + 1
}

// first is the earliest time, or a slot's width earlier at most; 0 if there is none.
func (e *earliest) first() (first int64) {
	for _, s := range e.slots {
		if s.n > 0 && (first == 0 || s.at < first) {
			first = s.at
		}
	}
	return first
}

// countLocked counts a lease with its mode and the end of its validity. One that is over counts as a fixed one.
func (s *Session) countLocked(l Lease, auto bool, until time.Time) {
	e := l.Entry()
	e.auto, e.until = auto, max(int64(until.Sub(s.opened)), 1)
	switch {
	case s.earliest == nil && len(s.list) <= fewLeases:
	case s.earliest == nil:
		s.earliest = &earliest{width: int64(s.TTL() / ttlSlots)}
		for _, other := range s.list {
			s.slotLocked(other.Entry())
		}
	default:
		s.slotLocked(e)
	}
	if len(s.list) == 0 {
		s.earliest = nil
	}
}

// slotLocked counts a lease in its slot. What lasts longer than a renewal would make it is looked at again at the next
// one.
func (s *Session) slotLocked(e *Entry) {
	var to int64
	if e.auto {
		to = min(e.until, s.heard.Load()+int64(s.TTL()))
	}
	e.slot = s.earliest.move(e.slot, to)
}

// Soonest is a moment before which no auto lease's validity ends, zero if there is none.
func (s *Session) Soonest() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.soonestLocked()
}

func (s *Session) soonestLocked() time.Time {
	if s.earliest != nil {
		return s.timeOf(s.earliest.first())
	}
	return s.firstLocked(func(e *Entry) bool { return e.auto })
}

// firstLocked is the first end of the validity of some leases, zero if there are none.
func (s *Session) firstLocked(some func(*Entry) bool) time.Time {
	var first int64
	for _, l := range s.list {
		if e := l.Entry(); some(e) && (first == 0 || e.until < first) {
			first = e.until
		}
	}
	return s.timeOf(first)
}

// timeOf is a time that is given in ns since the session was opened, zero for 0.
func (s *Session) timeOf(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return s.opened.Add(time.Duration(at))
}
