package client

import "time"

// A session has one timer for the deadlines of all its holds. It may ring early, never late: a deadline that moved
// later is noticed when it rings. Then only the holds whose turn it is are looked at, however many there are.

// alarm is when a hold is to be looked at.
type alarm struct {
	at   instant
	hold *hold
}

// alarms are a heap, the earliest one first. Some may be of holds that have ended, or that are to be looked at earlier.
type alarms []alarm

// counts says whether a hold has to be looked at then.
func (a alarm) counts() bool { return a.hold.rings == a.at && len(a.hold.locks) > 0 }

func (as *alarms) push(a alarm) {
	*as = append(*as, a)
	as.up(len(*as) - 1)
}

func (as *alarms) pop() alarm {
	all, last := *as, len(*as)-1
	first := all[0]
	all[0], all[last] = all[last], alarm{}
	*as = all[:last]
	as.down(0)
	return first
}

func (as alarms) up(i int) {
	for i > 0 && as[i].at < as[(i-1)/2].at {
		as[i], as[(i-1)/2] = as[(i-1)/2], as[i]
		i = (i - 1) / 2
	}
}

func (as alarms) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(as); child++ {
			if as[child].at < as[least].at {
				least = child
			}
		}
		if least == i {
			return
		}
		as[i], as[least] = as[least], as[i]
		i = least
	}
}

// sift drops those that do not count.
func (as *alarms) sift() {
	kept := (*as)[:0]
	for _, a := range *as {
		if a.counts() {
			kept = append(kept, a)
		}
	}
	clear((*as)[len(kept):])
	*as = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		kept.down(i)
	}
}

// fewAlarms is how many alarms are kept even if none of them counts.
const fewAlarms = 64

// alarmLocked has a hold looked at when its deadline has passed, or earlier.
func (s *session) alarmLocked(h *hold) {
	at := h.end()
	if h.rings != 0 && h.rings <= at {
		return
	}
	if len(s.alarms) >= 2*len(s.holds)+fewAlarms {
		s.alarms.sift()
	}
	h.rings = at
	s.alarms.push(alarm{at, h})
	s.ringLocked(at)
}

// ringLocked has the alarm ring at a time if it would not ring earlier anyway.
func (s *session) ringLocked(at instant) {
	if at < s.alarmAt {
		s.alarmAt = at
		s.alarm.Reset(time.Duration(max(at-s.client.now(), 0)))
	}
}

// ring ends all holds that are due and sets the alarm anew.
func (s *session) ring() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarmAt = never
	now := s.client.now()
	for len(s.alarms) > 0 && (s.alarms[0].at <= now || !s.alarms[0].counts()) {
		a := s.alarms.pop()
		if !a.counts() {
			continue
		}
		if a.hold.rings = 0; a.hold.end() <= now {
			s.expireLocked(a.hold)
		} else {
			s.alarmLocked(a.hold)
		}
	}
	if len(s.alarms) > 0 {
		s.ringLocked(s.alarms[0].at)
	}
}
