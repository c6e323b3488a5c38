package session

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// Goodbye releases all and ends the session.
func (s *Session) Goodbye() { s.end(nil, true) }

// End ends a session for a reason. Its leases run out by themselves unless the session asked for their release.
func (s *Session) End(cause error) { s.end(cause, s.opening.ReleaseOnEnd) }

// Detach notes that the stream of a session broke. What it waits for and watches is withdrawn at once. Its leases stay
// as long as the client may come back: until one session TTL after it was last heard. The session ends here at once if
// it asked for the release of its leases, has none, did not say that it comes back, or if very many are detached.
// Unless its leases are released it may go on all the same: the store has its record.
func (s *Session) Detach(cause error) {
	if s.opening.ReleaseOnEnd || !s.opening.ComesBack {
		s.End(cause)
		return
	}
	s.mu.Lock()
	first := !s.ended && s.detached.IsZero()
	if first {
		s.detached = time.Now()
	}
	s.mu.Unlock()
	if !first {
		return
	}
	s.withdraw()
	s.of.log.Debug("session detached", zap.String(observe.KeySession, s.id), zap.NamedError(observe.KeyCause, cause))
	if !s.slot.Part() || s.Info().Locks == 0 {
		s.End(cause)
		return
	}
	s.leaveIfElsewhere()
}

func (s *Session) end(cause error, release bool) {
	s.mu.Lock()
	first := s.retireLocked(cause, release)
	s.mu.Unlock()
	if first {
		s.depart()
	}
}

// retireLocked is the first step of the end of a session, and says whether it was open: then depart follows. cause is
// nil after a Goodbye. release says whether the leases are to be released, and not left to run out.
func (s *Session) retireLocked(cause error, release bool) (first bool) {
	if s.ended {
		return false
	}
	s.ended, s.cause = true, cause
	s.releases = release && !errors.Is(cause, ErrSuperseded)
	s.ops++ // until all is done
	s.silence.Stop()
	return true
}

// depart takes from a session that is retired what it has, each thing with the mutex of its name. It releases leases
// only once nobody can go on with the session.
func (s *Session) depart() {
	leases := s.Leases()
	s.of.part(s)
	s.logEnd(leases)
	s.withdraw()
	s.settleWork()
	s.of.log.Debug("session ended", zap.String(observe.KeySession, s.id), zap.NamedError(observe.KeyCause, s.cause))
	if !s.releases {
		s.leave(leases)
		s.LeaveOp()
		return
	}
	s.of.goes(func() { s.releaseAll(leases) })
}

// withdraw ends what the session waits for and watches.
func (s *Session) withdraw() {
	s.mu.Lock()
	watched := slices.Collect(maps.Keys(s.watched))
	s.mu.Unlock()
	for _, name := range watched {
		s.unwatch(name)
	}
	for _, w := range s.Waits() {
		w.Withdraw()
	}
}

// leave lets leases run out by themselves, or go on elsewhere.
func (s *Session) leave(ls []Lease) {
	for _, l := range slices.Backward(ls) {
		l.Leave(errors.Is(s.cause, ErrSuperseded))
	}
}

// releasesAtEnd bounds how many leases of a session that ends are released at a time: two batches. More would only wait
// for the store, in the way of others.
const releasesAtEnd = 128

// releaseAll releases leases at the end of their session.
func (s *Session) releaseAll(ls []Lease) {
	s.farewell = make(limits.Slots, releasesAtEnd)
	s.freeAtEnd(ls, s.farewell, Lease.Release, s.leave)
}

// freeLate is releaseAll for leases that are not the session's own yet.
func (s *Session) freeLate(ls []Lease) {
	under := make(limits.Slots, releasesAtEnd)
	s.freeAtEnd(ls, under, func(l Lease) { l.Free(under.Leave) }, func([]Lease) {})
}

// freeAtEnd calls free for leases, a few at a time: for each one that is freed, a slot of under is left. If somebody
// may go on with the session it calls leave instead. It ends an operation. If the store has not ended the record after
// AnswerTime, the operation ends all the same, and this goes on in the background.
func (s *Session) freeAtEnd(ls []Lease, under limits.Slots, free func(Lease), leave func([]Lease)) {
	finish := sync.OnceFunc(s.LeaveOp)
	defer finish()
	defer time.AfterFunc(s.of.cfg.AnswerTime, finish).Stop()
	if !s.endRecord() {
		s.mu.Lock()
		s.kept = true
		s.mu.Unlock()
		leave(ls)
		return
	}
	s.EnterOp()
	defer s.LeaveOp()
	for _, l := range slices.Backward(ls) {
		under <- struct{}{}
		free(l)
	}
	for range cap(under) {
		under <- struct{}{}
	}
}

// LeaseReleased is the end of a Release of one of its leases.
func (s *Session) LeaseReleased() { s.farewell.Leave() }

// endRecord ends the record, and says whether what the session has may be released: nobody goes on with it, also if
// the record is being written now. It tries until the leases have ended by themselves.
func (s *Session) endRecord() bool {
	end := time.Now().Add(s.TTL())
	for n := 1; ; n++ {
		err := s.of.store.EndSession(s.of.ctx, s.id, s.record.Epoch)
		switch {
		case err == nil:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.over = true
			return true
		case errors.Is(err, lock.ErrSuperseded):
			s.of.log.Debug("the session went on elsewhere", zap.String(observe.KeySession, s.id))
			return false
		case s.of.ctx.Err() != nil || time.Now().After(end):
			return false
		}
		lock.Pause(s.of.ctx, lock.Backoff(n))
	}
}

// KeepsPlaces says whether places in queues are left to end by themselves: the session may go on elsewhere, with them.
func (s *Session) KeepsPlaces() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.detached.IsZero() || s.ended && (errors.Is(s.cause, ErrDraining) || errors.Is(s.cause, ErrSuperseded))
}

// LeavesLeases says whether it is retired and leaves its leases to run out: the client may still be at work.
func (s *Session) LeavesLeases() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leavesLeasesLocked()
}

func (s *Session) leavesLeasesLocked() bool { return s.ended && (!s.releases || s.kept && !s.over) }
