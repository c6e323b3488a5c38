package broker

// Request is one request of a message: to acquire, to release, or one that is refused because it could not be read.
type Request struct {
	ID      uint64
	Verb    Verb
	Acquire AcquireRequest // of VerbAcquire
	Release ReleaseRequest // of VerbRelease
	Err     error          // of VerbRefuse
}

// Verb is what a Request asks for.
type Verb uint8

// The verbs.
const (
	VerbAcquire Verb = iota
	VerbRelease
	VerbRefuse
)

// Hear takes note of a sign of life, and of the requests that came with it. It also makes the Keeper renew the leases, if
// the last time is long enough ago: what is renewed just after a sign of life lasts longest.
func (s *Session) Hear(with ...Request) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.hearLocked()
	s.requestsLocked(with)
}

// Requests takes what came with an earlier sign of life.
func (s *Session) Requests(all []Request) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.requestsLocked(all)
}

// requestsLocked takes requests in their order: one turn under the mutex for all costs less than one for each.
func (s *Session) requestsLocked(all []Request) {
	for i := range all {
		switch r := &all[i]; r.Verb {
		case VerbAcquire:
			s.requestLocked(r.ID, r.Acquire)
		case VerbRelease:
			s.releaseLocked(r.ID, r.Release)
		case VerbRefuse:
			s.refuseLocked(r.ID, r.Err)
		}
	}
}
