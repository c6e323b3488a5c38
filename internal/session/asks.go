package session

import "github.com/lockd-io/lockd/internal/limits"

// Operable says whether the session may have one more operation under way.
func (s *Session) Operable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch most := s.of.cfg.Limits.LocksPerSession + s.of.cfg.Limits.WaitersPerSession; {
	case s.ended:
		return ErrSessionExpired
	case s.ops >= most:
		return s.of.cfg.Denied("operations", most)
	}
	return nil
}

// EnterOp and LeaveOp surround what has to be over before Done is closed.
func (s *Session) EnterOp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops++
}

// LeaveOp is the end of what EnterOp began.
func (s *Session) LeaveOp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveOpLocked()
}

// Released is the end of a release that Dismiss began, with its answer; nil if nobody asked for it.
func (s *Session) Released(answer Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer != nil {
		s.tellLocked(answer)
	}
	s.leaveOpLocked()
}

func (s *Session) leaveOpLocked() {
	s.ops--
	if s.ended && s.ops == 0 && !s.finished {
		s.finished = true
		close(s.done)
	}
}

// Ask begins a question to the store, which holds nothing and waits for nothing. A few goroutines ask the questions of
// a session, so that neither the stream's reader nor other requests wait for the store.
func (s *Session) Ask(id uint64, wrong error, question func()) {
	s.Begin(id, wrong, func() error { return s.ask(question) })
}

func (s *Session) ask(question func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return ErrSessionExpired
	case len(s.asks) >= limits.Questions:
		return s.of.cfg.Denied("questions", limits.Questions)
	}
	s.asks = append(s.asks, question)
	if s.askers < limits.Asking {
		s.askers++
		s.ops++
		s.of.goes(s.askAll)
	}
	return nil
}

// askAll asks until there is nothing left to ask. A session that ended gets no further answers.
func (s *Session) askAll() {
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
