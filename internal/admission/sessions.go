package admission

import "github.com/lockd-io/lockd/internal/lock"

// Slot is room for one session. Who keeps it is counted before and after its session begins, so that streams on which
// nothing is said cannot be without number either.
type Slot struct {
	desk   *Desk
	tenant lock.Tenant
	taken  bool // by a session, which frees it
	free   bool
	parted bool // its session waits for its client
}

// Arrive takes a slot for a client that is about to open a session. Leave it in any case.
func (d *Desk) Arrive(t lock.Tenant) (*Slot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.arriveLocked(t)
}

func (d *Desk) arriveLocked(t lock.Tenant) (*Slot, error) {
	if d.all >= d.limits.Sessions {
		return nil, d.denied("sessions", d.limits.Sessions)
	}
	if most := d.limits.SessionsPerAddress; most > 0 && d.sessions[t] >= most {
		return nil, d.denied("sessions_per_address", most)
	}
	d.all++
	d.sessions[t]++
	return &Slot{desk: d, tenant: t}, nil
}

// Begin gives a slot to a session: the one its client came with, or a new one if that is nil. It is nil if the slot is
// free again: the client has left.
func (d *Desk) Begin(s *Slot, t lock.Tenant) (_ *Slot, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s == nil {
		if s, err = d.arriveLocked(t); err != nil {
			return nil, err
		}
	}
	if s.free {
		return nil, nil
	}
	s.taken = true
	return s, nil
}

// Leave frees a slot, unless a session has taken it.
func (s *Slot) Leave() {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	if !s.taken {
		s.freeLocked()
	}
}

// Part frees the slot of a session that waits for its client to come back, which needs one then. It says whether the
// session may wait: there are no more of them than sessions may be.
func (s *Slot) Part() bool {
	d := s.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.free || d.parted >= d.limits.Sessions {
		return false
	}
	s.freeLocked()
	s.parted = true
	d.parted++
	return true
}

// End frees the slot of a session.
func (s *Slot) End() {
	s.desk.mu.Lock()
	defer s.desk.mu.Unlock()
	s.freeLocked()
	if s.parted {
		s.parted = false
		s.desk.parted--
	}
}

func (s *Slot) freeLocked() {
	if !s.free {
		s.free = true
		s.desk.all--
		lower(s.desk.sessions, s.tenant)
	}
}

// Slots is how many are taken.
func (d *Desk) Slots() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}
