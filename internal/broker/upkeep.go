package broker

import "time"

// upkeepPerSecond is how many locks a session may hold for each second of its TTL. Each of them is renewed, or verified, up to
// four times in a TTL; so one session causes at most four times as many renewals in a second, whatever TTL it chose. A
// permit costs as much to renew as a lock.
const upkeepPerSecond = 1000

// upkeep is how many locks and permits a session may hold and ask for, because of what it costs to renew them.
func (s *Session) upkeep() int {
	return int(min(s.ttl.Milliseconds(), time.Hour.Milliseconds()) * upkeepPerSecond / time.Second.Milliseconds())
}

// MaxLocks is how many locks the session may hold and ask for.
func (s *Session) MaxLocks() int { return min(s.b.cfg.Limits.LocksPerSession, s.upkeep()) }

// upkeepOf is what it costs to renew a lock with so many permits, in locks.
func upkeepOf(permits uint32) int { return max(1, int(permits)) }

func (w *waiter) upkeep() (sum int) {
	for _, c := range w.claimed() {
		sum += upkeepOf(c.Permits)
	}
	return sum
}

// roomLocked says whether the session may ask for what a waiter wants.
func (s *Session) roomLocked(w *waiter) error {
	limits := s.b.cfg.Limits
	switch locks := s.asked + len(s.list) + s.undoing + max(len(w.all), 1); {
	case len(s.waiting) >= limits.WaitersPerSession:
		return s.b.metrics.denied("waiters", limits.WaitersPerSession)
	case locks > s.MaxLocks():
		return s.b.metrics.denied("locks", s.MaxLocks())
	case s.weight+w.upkeep() > s.upkeep():
		return s.b.metrics.denied("locks", s.upkeep())
	}
	return nil
}

// waitingLocked takes note of a request that waits, unless it is known.
func (s *Session) waitingLocked(w *waiter) {
	if s.waiting[w.id] == nil {
		s.waiting[w.id] = w
		s.asked += max(len(w.all), 1)
		s.weight += w.upkeep()
	}
}

func (s *Session) notWaitingLocked(w *waiter) {
	if s.waiting[w.id] == w {
		delete(s.waiting, w.id)
		s.asked -= max(len(w.all), 1)
		s.weight -= w.upkeep()
	}
}
