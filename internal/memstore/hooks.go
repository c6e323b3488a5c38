package memstore

// What tests do to a Store from outside, as an operator could to a Redis.

// Expire ends the lease of a name as if its time had passed, or as if somebody had deleted its key.
func (s *Store) Expire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil {
		e.free()
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

// Occupy puts something under a name that is no lock.
func (s *Store) Occupy(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &entry{name: name, occupied: true}
	if old := s.entries[name]; old != nil {
		s.forgetLocked(old)
	}
	s.entries[name] = e
	s.linkLocked(e)
}

// Size is the number of names the Store remembers, held or not.
func (s *Store) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}
