package session

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
)

// locks is what a session holds and asks for. The session's mutex guards it.
type locks[L Lease] struct {
	list     []L
	asked    int       // locks that requests ask for
	waiters  int       // requests that ask for some
	weight   int       // what it costs to renew what is held and asked for, in locks
	undoing  int       // holds with an unknown outcome being cleared up
	suspects int       // leases to be verified before Safe is told
	atRisk   bool      // AtRisk was told, Safe was not
	earliest *earliest // end of the validity of an auto lease; nil while there are few
	mark     lock.Mark // the keeper's, of the auto leases
}

// Entry is a session's room in a lease. The session's mutex guards it.
type Entry struct {
	at      uint32 // in locks.list
	slot    uint8  // in locks.earliest; 0 for none
	suspect bool   // to be verified before Safe is told
	auto    bool
	until   int64 // the end of its validity, in ns since the session was opened
}

// Upkeep is how many locks and permits a session with a TTL may hold and ask for, because of what it costs to renew
// them: each is renewed, or verified, up to four times in a TTL, so one session causes at most four times as many
// renewals in a second, whatever TTL it chose. A permit costs as much to renew as a lock.
func Upkeep(ttl time.Duration) int {
	return int(min(ttl.Milliseconds(), time.Hour.Milliseconds()) * limits.LocksPerSecond / time.Second.Milliseconds())
}

func (s *Session[L, W]) upkeep() int { return Upkeep(s.ttl) }

// MaxLocks is how many locks the session may hold and ask for.
func (s *Session[L, W]) MaxLocks() int { return min(s.limits.LocksPerSession, s.upkeep()) }

// Want is what a request asks for.
type Want struct {
	Locks  int // 0 for one that wants once more what its holder has
	Weight int // what it costs to renew them, in locks
}

// wait is a request that was not answered yet.
type wait[W comparable] struct {
	w    W
	want Want
}

// Wait notes a request, if the session may ask for what it wants. One that was here before may want something
// else now, or go on as another W. It is here until it is answered by Take or Conclude, or until Leave.
func (s *Session[L, W]) Wait(id uint64, w W, want Want) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.waiting[id].want
	locks, weight := want.Locks-before.Locks, want.Weight-before.Weight
	switch {
	case s.ended:
		return ErrSessionExpired
	case locks <= 0 && weight <= 0:
	case before.Locks == 0 && s.waiters >= s.limits.WaitersPerSession:
		return s.port.Denied("waiters", s.limits.WaitersPerSession)
	case s.asked+len(s.list)+s.undoing+locks > s.MaxLocks():
		return s.port.Denied("locks", s.MaxLocks())
	case s.weight+weight > s.upkeep():
		return s.port.Denied("locks", s.upkeep())
	}
	s.waiting[id] = wait[W]{w, want}
	s.waiters += waits(want) - waits(before)
	s.asked += locks
	s.weight += weight
	return nil
}

// waits is 1 for what is counted as a request that waits.
func waits(want Want) int { return min(want.Locks, 1) }

// Leave is the end of a Wait that is not answered.
func (s *Session[L, W]) Leave(id uint64, w W) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(id, w)
}

func (s *Session[L, W]) leaveLocked(id uint64, w W) (want Want) {
	if e, there := s.waiting[id]; there && e.w == w {
		want = e.want
		delete(s.waiting, id)
		s.waiters -= waits(want)
		s.asked -= want.Locks
		s.weight -= want.Weight
	}
	return want
}

// Conclude answers a request. In the same moment it does not wait any more: whoever does not find it finds its answer
// in the outbox.
func (s *Session[L, W]) Conclude(id uint64, w W, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(id, w)
	s.tellLocked(e)
}

// Waiting is the request with an id that waits, if there is one.
func (s *Session[L, W]) Waiting(id uint64) (w W, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, there := s.waiting[id]
	return e.w, there
}

// WaitingFor are those requests that wait for which is says so, in no order.
func (s *Session[L, W]) WaitingFor(is func(W) bool) (ws []W) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.waiting {
		if is(e.w) {
			ws = append(ws, e.w)
		}
	}
	return ws
}

// Taken are leases that a request was granted.
type Taken[L Lease] struct {
	Leases []L
	Auto   bool
	Until  time.Time // the end of their validity
}

// Take concludes a request with what it was granted: its leases are listed as the session's own instead of it, and then
// it is answered, all in the same moment. So what a heartbeat is answered with holds for all that was told before it. A
// session that has ended takes nothing.
func (s *Session[L, W]) Take(id uint64, w W, t Taken[L], e Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := s.leaveLocked(id, w)
	if s.ended {
		return false
	}
	s.weight += want.Weight
	for _, l := range t.Leases {
		s.listLocked(l, t.Auto, t.Until)
	}
	s.tellLocked(e)
	return true
}

// Adopt lists a lease that the session brings with it. It makes so much of its weight.
func (s *Session[L, W]) Adopt(l L, weight int, auto bool, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.weight += weight
	s.listLocked(l, auto, until)
	return true
}

func (s *Session[L, W]) listLocked(l L, auto bool, until time.Time) {
	l.Entry().at = uint32(len(s.list)) //nolint:gosec // bounded by limits.locks_per_session
	s.list = append(s.list, l)
	s.countLocked(l, auto, until)
}

// Dismiss takes a lease that is over from its session. It made so much of its weight.
func (s *Session[L, W]) Dismiss(l L, weight int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weight -= weight
	e, end := l.Entry(), len(s.list)-1
	last := s.list[end]
	s.list[e.at], last.Entry().at = last, e.at
	var none L
	s.list[end] = none
	if s.list = s.list[:end]; end == 0 {
		s.list = nil
	}
	s.countLocked(l, false, time.Time{})
	s.trustLocked(l)
}

// Lighten notes that so much less is to be renewed.
func (s *Session[L, W]) Lighten(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weight -= by
}

// Undoing counts holds that are being cleared up, one more or one less.
func (s *Session[L, W]) Undoing(more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.undoing += more
}

// Mark is the keeper's room for what the auto leases have in common.
func (s *Session[L, W]) Mark() *lock.Mark { return &s.mark }

// Leases are what it holds at this moment.
func (s *Session[L, W]) Leases() []L {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// walkStep is how many leases are looked at in one go under the mutex. Walks that need more let everybody else have it
// in between.
const walkStep = 500

// Walk returns the leases, in no order. It goes from the last one to the first: a lease that leaves is replaced by the
// last one, so nothing that stays is missed, but it may be met twice.
func (s *Session[L, W]) Walk(pause func()) (found []L) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := len(s.list); end > 0; {
		from := max(end-walkStep, 0)
		found = append(found, s.list[from:end]...)
		if from == 0 {
			break
		}
		s.mu.Unlock()
		pause()
		s.mu.Lock()
		end = min(from, len(s.list))
	}
	return found
}

// Count notes that the mode or the validity of a lease changed.
func (s *Session[L, W]) Count(l L, auto bool, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked(l, auto, until)
}

// Renewed is Count for a lease that was found in the store, and with that is known to be there.
func (s *Session[L, W]) Renewed(l L, auto bool, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked(l, auto, until)
	s.trustLocked(l)
}

// Warn tells AtRisk, with the earliest end of a validity, to one that holds leases and was not told.
func (s *Session[L, W]) Warn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.atRisk || s.ended || len(s.list) == 0 {
		return
	}
	s.atRisk = true
	s.tellLocked(AtRisk{Validity: s.validityLocked(s.firstLocked(func(*Entry) bool { return true }))})
}

// Suspect marks all leases as to be verified before Safe is told, and returns them.
func (s *Session[L, W]) Suspect() []L {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil
	}
	for _, l := range s.list {
		if e := l.Entry(); !e.suspect {
			e.suspect = true
			s.suspects++
		}
	}
	return slices.Clone(s.list)
}

// trustLocked takes a lease from those to be verified: it was renewed, or it is over.
func (s *Session[L, W]) trustLocked(l L) {
	if e := l.Entry(); e.suspect {
		e.suspect = false
		s.suspects--
	}
	s.calmLocked()
}

// Calm tells Safe if nothing is at risk any more.
func (s *Session[L, W]) Calm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calmLocked()
}

func (s *Session[L, W]) calmLocked() {
	if s.atRisk && s.suspects == 0 && s.port.Safe() {
		s.atRisk = false
		s.tellLocked(Safe{})
	}
}
