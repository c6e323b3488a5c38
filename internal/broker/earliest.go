package broker

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

// earliest is the earliest of many times that change often, in constant time: it counts them in slots.
type earliest struct {
	begin time.Time // earlier than all of them
	width time.Duration
	slots [earliestSlots]struct {
		n  int32
		at time.Time // of those that were counted here, the earliest
	}
}

// move takes a time from its slot, 0 for none, and counts another one, unless that is zero. It returns its slot.
func (e *earliest) move(from uint8, to time.Time) uint8 {
	if from > 0 {
		e.slots[from-1].n--
	}
	if to.IsZero() {
		return 0
	}
	number := uint64(to.Sub(e.begin)/e.width) % earliestSlots //nolint:gosec // not negative
	s := &e.slots[number]
	if s.n == 0 || to.Before(s.at) {
		s.at = to
	}
	s.n++
	return uint8(number) + 1
}

// first is the earliest time, or a slot's width earlier at most; zero if there is none.
func (e *earliest) first() (first time.Time) {
	for _, s := range e.slots {
		if s.n > 0 && (first.IsZero() || s.at.Before(first)) {
			first = s.at
		}
	}
	return first
}

// countLocked takes note that the validity or the mode of a lease changed, or that it is over. What lasts longer than a
// renewal would make it is looked at again at the next one.
func (s *Session) countLocked(l *Lease) {
	switch {
	case s.earliest == nil && len(s.list) <= fewLeases:
		return
	case s.earliest == nil:
		s.earliest = &earliest{begin: s.opened.Add(-s.ttl), width: s.ttl / ttlSlots}
		for _, other := range s.list {
			s.countLocked(other)
		}
		return
	}
	var until time.Time
	if l.auto && !l.over {
		until = l.autoUntilLocked()
		if most := s.heard.Add(s.ttl); until.After(most) {
			until = most
		}
	}
	l.slot = s.earliest.move(l.slot, until)
	if len(s.list) == 0 {
		s.earliest = nil
	}
}

// soonestLocked is a moment before which no auto lease's validity ends, zero if there is none.
func (s *Session) soonestLocked() (soonest time.Time) {
	if s.earliest != nil {
		return s.earliest.first()
	}
	for _, l := range s.list {
		if until := l.autoUntilLocked(); l.auto && (soonest.IsZero() || until.Before(soonest)) {
			soonest = until
		}
	}
	return soonest
}
