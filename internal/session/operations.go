package session

import "github.com/lockd-io/lockd/internal/limits"

// Operable says whether the session may have one more operation under way.
func (s *Session[L, W]) Operable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch most := s.limits.LocksPerSession + s.limits.WaitersPerSession; {
	case s.ended:
		return ErrSessionExpired
	case s.ops >= most:
		return s.port.Denied("operations", most)
	}
	return nil
}

// EnterOp and LeaveOp surround what has to be over before Done is closed.
func (s *Session[L, W]) EnterOp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops++
}

// LeaveOp is the end of it.
func (s *Session[L, W]) LeaveOp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveOpLocked()
}

func (s *Session[L, W]) leaveOpLocked() {
	s.ops--
	if s.ended && s.ops == 0 && !s.finished {
		s.finished = true
		close(s.done)
	}
}

// Ask has a question to the store asked, or says why it is not. It holds nothing and waits for nothing. A few
// goroutines ask the questions of a session, so that neither the stream's reader nor other requests wait for the store.
func (s *Session[L, W]) Ask(question func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return ErrSessionExpired
	case len(s.asks) >= limits.Questions:
		return s.port.Denied("questions", limits.Questions)
	}
	s.asks = append(s.asks, question)
	if s.askers < limits.Asking {
		s.askers++
		s.ops++
		s.port.Go(s.askAll)
	}
	return nil
}

// askAll asks until there is nothing left to ask. A session that ended gets no further answers.
func (s *Session[L, W]) askAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.asks) > 0 && !s.ended {
		question := s.asks[0]
		s.asks = s.asks[1:]
		s.mu.Unlock()
		question()
		s.mu.Lock()
	}
	if s.askers--; s.askers == 0 {
		s.asks = nil
	}
	s.leaveOpLocked()
}

// Pages says whether there is room for one more page of holds in the outbox.
func (s *Session[L, W]) Pages() error {
	if s.out.pages() >= limits.Pages {
		return s.port.Denied("pages", limits.Pages)
	}
	return nil
}
