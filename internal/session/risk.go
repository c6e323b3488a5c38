package session

import (
	"slices"
	"time"
)

// While the store cannot be reached the sessions that hold leases are told AtRisk. When it is back all leases are
// verified, and each session at risk is told Safe when all of its leases are.

// AtRisk says that the store cannot be reached. It is said again and again, for the sessions that got leases meanwhile.
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

// Safe says that the store is there.
func (r *Registry) Safe() { r.safe.Store(true) }

const (
	// recountSteps and recountPause spread the verification of all leases over a second: there can be very many, and
	// an interruption concerns all replicas at once.
	recountSteps = 20
	recountPause = 50 * time.Millisecond
)

// Recount has every lease renewed, some at a time.
func (r *Registry) Recount() {
	var all []Lease
	for _, s := range r.All() {
		all = append(all, s.Leases()...)
	}
	for some := range slices.Chunk(all, max(1, (len(all)+recountSteps-1)/recountSteps)) {
		for _, l := range some {
			l.Hurry()
		}
		r.pause(recountPause)
	}
}

// warn tells AtRisk, with the earliest end of a validity, to one that holds leases and was not told.
func (s *Session) warn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.atRisk || s.ended || len(s.list) == 0 {
		return
	}
	s.atRisk = true
	first := s.endLocked(func(*Entry) bool { return true })
	s.tellLocked(AtRisk{Validity: s.validityLocked(s.opened.Add(time.Duration(first)))})
}

// suspect has all leases verified before Safe is told.
func (s *Session) suspect() {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	for _, l := range s.list {
		if e := l.Entry(); !e.suspect {
			e.suspect = true
			s.suspects++
		}
	}
	all := slices.Clone(s.list)
	s.mu.Unlock()
	for _, l := range all {
		l.Hurry()
	}
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
