package broker

import "slices"

// releasesAtEnd bounds how many leases of a session that ends are released at a time: two batches. More would only wait
// for the store, in the way of others.
const releasesAtEnd = 128

// releaseAll releases the leases of a session that ended, and returns when no call is under way any more.
func (s *Session) releaseAll(ls []*Lease) {
	s.EnterOp()
	defer s.LeaveOp()
	s.farewell = make(chan struct{}, releasesAtEnd)
	for _, l := range slices.Backward(ls) {
		s.farewell <- struct{}{}
		s.releaseAtEnd(l)
	}
	for range releasesAtEnd {
		s.farewell <- struct{}{}
	}
}

// releaseAtEnd begins to release a lease, after what is under way for it.
func (s *Session) releaseAtEnd(l *Lease) {
	l.lock()
	defer l.unlock()
	if !l.over && len(l.ops) > 0 {
		l.doLocked(func() { s.releaseLastLocked(l) })
		return
	}
	s.releaseLastLocked(l)
}

func (s *Session) releaseLastLocked(l *Lease) {
	if l.over {
		<-s.farewell
		return
	}
	s.b.startReleaseLocked(l, 0)
}
