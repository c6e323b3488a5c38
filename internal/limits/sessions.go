package limits

import "github.com/lockd-io/lockd/internal/lock"

// Slot is room for one session. A client takes it when it opens a stream, so that streams on which nothing is said are
// counted, too.
type Slot struct {
	of     *Tenants
	tenant lock.Tenant
	has    slotOwner // guarded by Tenants.mu
}

// slotOwner is who has a Slot.
type slotOwner uint8

const (
	nobody slotOwner = iota
	aClient
	aSession
	aPartedSession // which waits for its client, and takes no room of others
)

// Arrive takes a slot for a client that is about to open a session. Call Leave in any case.
func (ts *Tenants) Arrive(t lock.Tenant) (*Slot, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.arriveLocked(t)
}

func (ts *Tenants) arriveLocked(t lock.Tenant) (*Slot, error) {
	if ts.all >= ts.limits.Sessions {
		return nil, ts.denied("sessions", ts.limits.Sessions)
	}
	if most, subject := ts.mostSessionsLocked(t); most > 0 && ts.sessions[t] >= most {
		return nil, ts.denied(subject, most)
	}
	ts.all++
	ts.sessions[t]++
	return &Slot{of: ts, tenant: t, has: aClient}, nil
}

// Begin gives a session the slot s of its client, or a new one if s is nil. It returns nil without an error if the
// client does not have s any more: it has left, or s is a session's.
func (ts *Tenants) Begin(s *Slot, t lock.Tenant) (_ *Slot, err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if s == nil {
		if s, err = ts.arriveLocked(t); err != nil {
			return nil, err
		}
	}
	if s.has != aClient {
		return nil, nil
	}
	s.has = aSession
	return s, nil
}

// Leave frees a slot, unless a session has taken it.
func (s *Slot) Leave() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.has == aClient {
		s.freeLocked()
	}
}

// Part frees the slot of a session that waits for its client to come back; the client needs another one then. It says
// whether the session may wait: at most Limits.Sessions may.
func (s *Slot) Part() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.has != aSession || s.of.parted >= s.of.limits.Sessions {
		return false
	}
	s.freeLocked()
	s.has = aPartedSession
	s.of.parted++
	return true
}

// End frees the slot of a session.
func (s *Slot) End() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.freeLocked()
}

func (s *Slot) freeLocked() {
	switch s.has {
	case nobody:
	case aPartedSession:
		s.of.parted--
	default:
		s.of.all--
		if s.of.sessions[s.tenant]--; s.of.sessions[s.tenant] == 0 {
			delete(s.of.sessions, s.tenant)
		}
	}
	s.has = nobody
}

// Slots is how many slots are taken.
func (ts *Tenants) Slots() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.all
}
