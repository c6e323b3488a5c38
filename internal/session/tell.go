package session

import (
	"cmp"

	"github.com/lockd-io/lockd/internal/lock"
)

// Begin admits a request and runs it, unless wrong is an error. If one of these fails, the answer is Failed.
func (s *Session) Begin(id uint64, wrong error, run func() error) {
	err := cmp.Or(s.Admit(id), wrong)
	if err == nil {
		err = run()
	}
	if err != nil {
		s.Fail(id, err)
	}
}

// Admit checks what all requests have in common, and marks the id as used.
func (s *Session) Admit(id uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return ErrSessionExpired
	case id == 0:
		return lock.Invalid("request_id", lock.ReasonRequestID, "must be greater than 0")
	case !s.ids.use(id):
		return ErrRepeated
	}
	return nil
}

// Refuse answers a request that could not even be read.
func (s *Session) Refuse(id uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ids.use(id)
	s.tellLocked(Failed{ID: id, Err: err})
}

// Fail tells that a request was not carried out.
func (s *Session) Fail(id uint64, err error) { s.Tell(Failed{ID: id, Err: err}) }

// Answer tells the outcome of a request: e, unless there is an error.
func (s *Session) Answer(id uint64, e Event, err error) {
	if err != nil {
		e = Failed{ID: id, Err: err}
	}
	s.Tell(e)
}

// Tell puts an event into the outbox. If that is full the session ends. A session that has ended is told only the
// answers to what was under way at its Goodbye.
func (s *Session) Tell(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLocked(e)
}

// TellLost tells that a lease of an owner was lost, and logs it. The mutex of the name is held.
func (s *Session) TellLost(lost Lost, owner lock.Owner, auto bool) {
	s.Tell(lost)
	s.logLost(lost, owner, auto)
}

// TellChanged is Count and Tell in the same moment: the answer to a heartbeat holds for the leases that the client was
// told are auto.
func (s *Session) TellChanged(l Lease, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked(l)
	s.tellLocked(e)
}

func (s *Session) tellLocked(e Event) {
	if who := s.opening.Identity; who != nil {
		who.Told(s.id, e)
	}
	if !s.detached.IsZero() || s.ended && s.cause != nil {
		return
	}
	s.Spend(priceOf(e))
	s.Trace(e)
	if !s.out.put(e) && s.retireLocked(ErrBacklog, s.opening.ReleaseOnEnd) {
		s.of.goes(s.depart) // that locks the mutexes of names
	}
}

// Validity is that of a lease, as it is told: with the sign of life that the server had last.
func (s *Session) Validity(t Terms) Validity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.validityLocked(t)
}

func (s *Session) validityLocked(t Terms) Validity {
	return Validity{Until: t.Until, Anchor: s.anchor, AnchorAt: s.anchorAt, Most: t.lasts()}
}
