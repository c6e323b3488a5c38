package session

import (
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
)

// locks is what a session holds and asks for. The session's mutex guards it.
type locks struct {
	list     []Lease
	asked    int       // locks that requests ask for
	waiters  int       // requests that ask for some
	weight   int       // what it costs to renew what is held and asked for, in locks
	suspects int       // leases to be verified before Safe is told
	atRisk   bool      // AtRisk was told, Safe was not
	note     lock.Note // the keeper's, of the auto leases
	soonest
}

// Entry is what a session keeps of a lease. The session's mutex guards it.
type Entry struct {
	at      uint32 // in locks.list
	suspect bool   // to be verified before Safe is told
	auto    bool
	lasts   bool  // it is auto, and lasts until its max_hold
	until   int64 // the end of its validity, in ns since the session was opened
}

// MostWeight is how many locks and permits a session with a TTL may hold and ask for, because of what it costs to renew
// them: each is renewed, or verified, up to four times in a TTL, so one session causes at most four times as many
// renewals in a second, whatever TTL it chose. lock.Weight says how many locks each of them is.
func MostWeight(ttl time.Duration) int {
	return int(min(ttl.Milliseconds(), time.Hour.Milliseconds()) * limits.LocksPerSecond / time.Second.Milliseconds())
}

// MaxLocks is how many locks the session may hold and ask for.
func (s *Session) MaxLocks() int { return min(s.of.cfg.Limits.LocksPerSession, MostWeight(s.TTL())) }

// Want is what a request asks for.
type Want struct {
	Locks  int // 0 for one that wants once more what its holder has
	Weight int // what it costs to renew them, in locks
}

// wait is a request that was not answered yet.
type wait struct {
	w    Waiter
	want Want
}

// AddWaiter notes a request, if the session may ask for what it wants. One that was here before may want something else
// now. It is here until it is answered by Take or Conclude, or until Leave.
func (s *Session) AddWaiter(id uint64, w Waiter, want Want) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.waiting[id].want
	locks, weight := want.Locks-before.Locks, want.Weight-before.Weight
	switch {
	case s.ended:
		return ErrSessionExpired
	case locks <= 0 && weight <= 0:
	case before.Locks == 0 && s.waiters >= s.of.cfg.Limits.WaitersPerSession:
		return s.of.cfg.Denied("waiters", s.of.cfg.Limits.WaitersPerSession)
	case s.asked+len(s.list)+locks > s.MaxLocks():
		return s.of.cfg.Denied("locks", s.MaxLocks())
	case s.weight+weight > MostWeight(s.TTL()):
		return s.of.cfg.Denied("locks", MostWeight(s.TTL()))
	}
	if err := s.use.Take(limits.UseLocks, locks); err != nil {
		return err
	}
	if err := s.use.Take(limits.UseWaiting, waits(want)-waits(before)); err != nil {
		s.use.Give(limits.UseLocks, locks)
		return err
	}
	if err := s.use.Take(limits.UseRenewalLoad, weight*limits.RenewalLoad(s.TTL())); err != nil {
		s.use.Give(limits.UseLocks, locks)
		s.use.Give(limits.UseWaiting, waits(want)-waits(before))
		return err
	}
	s.waiting[id] = wait{w, want}
	s.waiters += waits(want) - waits(before)
	s.asked += locks
	s.weight += weight
	return nil
}

// waits is 1 for what is counted as a request that waits.
func waits(want Want) int { return min(want.Locks, 1) }

// Leave is the end of a Waiter that is not answered.
func (s *Session) Leave(id uint64, w Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(id, w)
}

func (s *Session) leaveLocked(id uint64, w Waiter) {
	left := s.forgetLocked(id, w)
	s.useLocked(-left.Locks, -left.Weight, -waits(left))
}

// forgetLocked takes a request from those that wait, and returns what it wanted, which is still counted as used.
func (s *Session) forgetLocked(id uint64, w Waiter) (wanted Want) {
	if e, there := s.waiting[id]; there && e.w == w {
		delete(s.waiting, id)
		wanted = e.want
		s.waiters -= waits(wanted)
		s.asked -= wanted.Locks
	}
	return wanted
}

// useLocked counts more of what the session holds and asks for, also as that of its client.
func (s *Session) useLocked(locks, weight, waiting int) {
	s.weight += weight
	s.use.Add(limits.UseLocks, locks)
	s.use.Add(limits.UseWaiting, waiting)
	s.use.Add(limits.UseRenewalLoad, weight*limits.RenewalLoad(s.TTL()))
}

// Conclude answers a request. In the same moment it does not wait any more: whoever does not find it finds its answer
// in the outbox.
func (s *Session) Conclude(id uint64, w Waiter, e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaveLocked(id, w)
	s.tellLocked(e)
}

// Waiting is the request with an id that waits, if there is one.
func (s *Session) Waiting(id uint64) (w Waiter, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, there := s.waiting[id]
	return e.w, there
}

// Waits are the requests that wait, in no order.
func (s *Session) Waits() (ws []Waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.waiting {
		ws = append(ws, e.w)
	}
	return ws
}

// Cancel ends the wait of another request of the session. ErrNotWaiting says that its answer is in the outbox already,
// or that there never was such a request.
func (s *Session) Cancel(id, target uint64) {
	s.Begin(id, nil, func() error {
		if w, there := s.Waiting(target); !there || !w.Cancel() {
			return ErrNotWaiting
		}
		s.Tell(Done{ID: id})
		return nil
	})
}

// Take concludes a request with what it was granted: its leases are listed as the session's own instead of it, and then
// it is answered, all in the same moment. So what a heartbeat is answered with holds for all that was told before it. A
// session that has ended takes nothing.
func (s *Session) Take(id uint64, w Waiter, ls []Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.forgetLocked(id, w)
	if s.ended {
		s.useLocked(-left.Locks, -left.Weight, -waits(left))
		return false
	}
	terms, weight := ls[0].Terms(), 0
	told := Granted{ID: id, Hold: ls[0].Hold(), Validity: s.validityLocked(terms), Count: 1}
	told.Auto, told.Most = terms.Auto, terms.Most
	for i, l := range ls {
		weight += s.listLocked(l)
		if i > 0 {
			told.More = append(told.More, l.Hold())
		}
	}
	s.useLocked(len(ls)-left.Locks, weight-left.Weight, -waits(left)) // mostly 0, 0 and -1
	s.tellLocked(told)
	return true
}

// Bring lists a lease that a resumed session brings with it, unless the session has ended.
func (s *Session) Bring(l Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.useLocked(1, s.listLocked(l), 0)
	}
	return !s.ended
}

// listLocked lists a lease as the session's own, and returns its weight, to be counted as used.
func (s *Session) listLocked(l Lease) (weight int) {
	l.Entry().at = uint32(len(s.list)) //nolint:gosec // bounded by limits.locks_per_session
	s.list = append(s.list, l)
	s.countLocked(l)
	return l.Terms().Weight
}

// Dismiss takes a lease that is over from its session. released: an operation follows that ends with Released.
func (s *Session) Dismiss(l Lease, released bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if released {
		s.ops++
	}
	s.useLocked(-1, -l.Terms().Weight, 0)
	e, end := l.Entry(), len(s.list)-1
	last := s.list[end]
	s.list[e.at], last.Entry().at = last, e.at
	s.list[end] = nil
	if s.list = s.list[:end]; end == 0 {
		s.list = nil
	}
	s.fixLocked(e)
	s.trustLocked(l)
}

// Lighten notes that the renewals weigh less, by so many locks.
func (s *Session) Lighten(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.useLocked(0, -by, 0)
}

// Note is what the keeper notes of the auto leases, which are renewed together.
func (s *Session) Note() *lock.Note { return &s.note }

// Leases are what it holds at this moment.
func (s *Session) Leases() []Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// Count notes that the mode or the validity of a lease changed.
func (s *Session) Count(l Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked(l)
}

// Renewed is Count for a lease that was found in the store, so that it need not be verified any more.
func (s *Session) Renewed(l Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countLocked(l)
	s.trustLocked(l)
}
