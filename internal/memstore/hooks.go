package memstore

import "time"

// What tests do to a Store from outside, as an operator could to a Redis.

// Expire ends the lease of a name as if its time had passed, or as if somebody had deleted its key, whatever is there.
func (s *Store) Expire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		e.free()
		e.occupied = false
	}
}

// Lose forgets everything, as a server does that restarts without its data.
func (s *Store) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		s.floor = max(s.floor, e.fence)
	}
	s.lost = s.floor
	clear(s.entries)
	s.hand = nil
}

// Occupy puts something under a name that is no lock, in place of a hold if there is one.
func (s *Store) Occupy(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entryLocked(name, time.Now())
	e.free()
	e.occupied = true
}

// Size is the number of names the Store remembers, held or not.
func (s *Store) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}
