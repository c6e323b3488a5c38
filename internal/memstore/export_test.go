package memstore

// Size is the number of names the Store remembers, held or not.
func (s *Store) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}
