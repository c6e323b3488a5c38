package session

// Registry is the one that the session is of.
func (s *Session) Registry() *Registry { return s.of }
