package session

import (
	"time"
)

// While the store cannot be reached the sessions that hold leases are told AtRisk. When it is back all leases are
// verified, and each session at risk is told Safe when all of its leases are.

// AtRisk tells sessions with leases that the store cannot be reached; again and again, as some get leases meanwhile.
func (r *Registry) AtRisk() {
	r.safe.Store(false)
	for _, s := range r.All() {
		s.warn()
	}
}

// Verify has every lease renewed now, because the store is back.
func (r *Registry) Verify() {
	all := r.All()
	for _, s := range all {
		s.suspect()
	}
	r.safe.Store(true)
	for _, s := range all {
		s.calm()
	}
}

// Safe notes that the store is there.
func (r *Registry) Safe() { r.safe.Store(true) }

// Recount has every lease renewed now.
func (r *Registry) Recount() {
	for _, s := range r.All() {
		hurry(s.Leases())
	}
}

func hurry(leases []Lease) {
	for _, l := range leases {
		l.Hurry()
	}
}

// warn tells AtRisk, with the earliest end of a validity, to a session that holds leases and was not told.
func (s *Session) warn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.atRisk || s.ended || len(s.list) == 0 {
		return
	}
	s.atRisk = true
	first := s.endLocked(func(*Entry) bool { return true })
	s.tellLocked(AtRisk{Validity: s.validityLocked(Terms{Until: s.opened.Add(time.Duration(first))})})
}

// suspect has all leases verified before Safe is told.
func (s *Session) suspect() {
	s.mu.Lock()
	for _, l := range s.list {
		if e := l.Entry(); !e.suspect {
			e.suspect = true
			s.suspects++
		}
	}
	s.mu.Unlock()
	hurry(s.Leases())
}

// trustLocked takes a lease from those to be verified: it was renewed, or it is over.
func (s *Session) trustLocked(l Lease) {
	if e := l.Entry(); e.suspect {
		e.suspect = false
		s.suspects--
	}
	s.calmLocked()
}

// calm tells Safe if nothing is at risk any more.
func (s *Session) calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calmLocked()
}

func (s *Session) calmLocked() {
	if s.atRisk && s.suspects == 0 && s.of.safe.Load() {
		s.atRisk = false
		s.tellLocked(Safe{})
	}
}
