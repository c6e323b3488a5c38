package broker

import "sync"

// releasesAtEnd bounds how many leases of a session that ends are released at a time: two batches. More would only wait
// for the store, in the way of others.
const releasesAtEnd = 128

// farewell is what a session that ended has yet to release.
type farewell struct {
	mu     sync.Mutex // guards the fields below
	leases []*Lease   // the last one goes first
	begun  int        // of which the end is not known
}

// releaseAll begins to release the leases of a session that ended. As many as are under way follow one another.
func (s *Session) releaseAll(ls []*Lease) {
	some := min(len(ls), releasesAtEnd)
	if some == 0 {
		return
	}
	s.EnterOp()
	s.b.beginTaking()
	s.farewell = &farewell{leases: ls, begun: some}
	for range some {
		s.releaseNext()
	}
}

// releaseNext goes on with the next lease in the place of one, until none is left.
func (s *Session) releaseNext() {
	for l := s.farewell.next(); l != nil; l = s.farewell.next() {
		if s.releaseAtEnd(l) {
			return
		}
	}
	if s.farewell.isOver() {
		s.b.endTaking()
		s.LeaveOp()
	}
}

func (f *farewell) next() *Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.leases) - 1
	if last < 0 {
		return nil
	}
	l := f.leases[last]
	f.leases[last], f.leases = nil, f.leases[:last]
	return l
}

// isOver notes that one place is not used any more, and says whether it was the last one.
func (f *farewell) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun--
	return f.begun == 0
}

// releaseAtEnd begins to release a lease, and says whether it did. Then releaseNext is called when that is done.
func (s *Session) releaseAtEnd(l *Lease) bool {
	l.lock()
	defer l.unlock()
	switch {
	case l.over:
		return false
	case len(l.ops) == 0:
		s.b.startReleaseLocked(l, 0)
	default: // after what is under way for it
		l.doLocked(func() {
			l.lock()
			over := l.over
			if !over {
				s.b.startReleaseLocked(l, 0)
			}
			l.unlock()
			if over {
				s.releaseNext()
			}
		})
	}
	return true
}
