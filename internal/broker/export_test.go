package broker

import "fmt"

// Residue describes what a broker still keeps, "" if nothing. A driver or a compensation at its end may need a moment.
func (b *Broker) Residue() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := ""
	for name, q := range b.queues {
		s += fmt.Sprintf("queue %q: held %t, taken over %t, driving %t, %d waiters\n", name, q.holder != nil,
			q.holder == takenOver, q.driving, q.waiters.Len())
	}
	if len(b.own)+b.bounded.Len() > 0 {
		s += fmt.Sprintf("%d lease ids, %d bounded requests\n", len(b.own), b.bounded.Len())
	}
	if b.slots.all != len(b.sessions) {
		s += fmt.Sprintf("%d slots for %d sessions\n", b.slots.all, len(b.sessions))
	}
	if len(b.sessions)+len(b.watches)+b.taking > 0 {
		s += fmt.Sprintf("%d sessions, %d watches, %d goroutines that take\n", len(b.sessions), len(b.watches), b.taking)
	}
	return s
}

// Residue describes what an ended session still keeps, "" if nothing.
func (s *Session) Residue() string {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if len(s.leases)+len(s.waiting)+s.asked+s.weight+len(s.watched)+s.unsettled+s.ops+s.suspects == 0 {
		return ""
	}
	return fmt.Sprintf("%d leases, %d waiters for %d locks, weight %d, %d watches, %d unsettled, %d operations, %d suspects", len(s.leases),
		len(s.waiting), s.asked, s.weight, len(s.watched), s.unsettled, s.ops, s.suspects)
}

// RequestIDs is requestIDs for tests.
type RequestIDs struct{ requestIDs }

// Use is use.
func (r *RequestIDs) Use(id uint64) bool { return r.use(id) }

// Trace is what every event of a session passes.
func Trace(s *Session, e Event) { s.traceLocked(e) }
