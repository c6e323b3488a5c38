package watchdog

import "time"

const (
	// slotWidth is the time for which a slot of the wheel stands.
	slotWidth = moment(256 * time.Millisecond)
	slots     = 512
	// outside is the slot of an entry that is not in the wheel.
	outside = -1
	// slotPiece is how many entries are taken from a slot before others have the mutex.
	slotPiece = 256
)

// wheel has the entries by when they are looked at. Those of the slots that have begun are in near, which knows their
// order; the others are only put into the slot of their time, or into the last one there is. Nearly every lease is
// renewed before its time comes, so its entry is moved from slot to slot and needs no order.
type wheel struct {
	heads [slots]uint32
	open  moment // the number of the latest slot that has begun
	count int    // entries in slots
	near  timeline
}

// lookAtLocked has an entry looked at, at a time. It may be looked at earlier.
func (s *shard[L]) lookAtLocked(id uint32, e *entry[L], at moment) {
	if e.slot != outside && e.at <= at {
		return
	}
	s.unlinkLocked(e)
	e.at = at
	if at/slotWidth <= s.wheel.open {
		s.wheel.near.push(timed{at, id})
	} else {
		s.linkLocked(id, e)
	}
	s.wakeLocked(at)
}

func (s *shard[L]) linkLocked(id uint32, e *entry[L]) {
	slot := min(e.at/slotWidth, s.wheel.open+slots-1) % slots
	head := &s.wheel.heads[slot]
	e.slot, e.prev, e.next = int32(slot), 0, *head
	if *head != 0 {
		s.entries.at(*head).prev = id
	}
	*head = id
	s.wheel.count++
}

func (s *shard[L]) unlinkLocked(e *entry[L]) {
	if e.slot == outside {
		return
	}
	if e.prev == 0 {
		s.wheel.heads[e.slot] = e.next
	} else {
		s.entries.at(e.prev).next = e.next
	}
	if e.next != 0 {
		s.entries.at(e.next).prev = e.prev
	}
	e.slot = outside
	s.wheel.count--
}

// turnLocked opens the slots that have begun, and says whether that is done: it looks at a piece of the entries.
func (s *shard[L]) turnLocked(now moment) (done bool) {
	current := now / slotWidth
	if s.wheel.count == 0 {
		s.wheel.open = max(s.wheel.open, current)
		return true
	}
	for range slotPiece {
		head := s.wheel.heads[s.wheel.open%slots]
		for head == 0 && s.wheel.open < current {
			s.wheel.open++
			head = s.wheel.heads[s.wheel.open%slots]
		}
		if head == 0 {
			return true
		}
		e := s.entries.at(head)
		s.unlinkLocked(e)
		s.planLocked(head, e)
	}
	return false
}

// nextSlot is when the next slot begins that has entries, never if there is none.
func (w *wheel) nextSlot() moment {
	if w.count == 0 {
		return never
	}
	for n := w.open; ; n++ {
		if w.heads[n%slots] != 0 {
			return n * slotWidth
		}
	}
}
