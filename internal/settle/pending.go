package settle

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/btree"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// key is whose pending release it is. There is one for each.
type key struct {
	name  string
	owner lock.Owner
}

// pendingRelease is a release that has to be acknowledged. Whoever makes its call has it for himself until the answer.
type pendingRelease struct {
	key
	r       lock.Return
	ttl     time.Duration // of what it releases
	made    time.Time
	at      time.Time // when its next call is due
	end     time.Time // when it is given up
	number  uint64    // tells it from others that are due at the same time; 0 if nothing has gone wrong yet
	calls   int
	calling bool                       // a call is under way
	unknown bool                       // the outcome of a call was
	asking  int                        // acquisitions that put it off
	tell    func(lock.Returned, error) // who waits for its first calls; nil for nobody
	off     []*pendingRelease          // of the successor of its first call, that it put off
	others  []lock.Fence               // that earlier ones named: the hold may have one of them instead
	answer  func(lock.Returned, error) // is told what became of a call
}

// mostOthers bounds them, for an owner that is asked for again and again while the store is silent.
const mostOthers = 15

func (u *pendingRelease) before(o *pendingRelease) bool {
	return cmp.Or(u.at.Compare(o.at), cmp.Compare(u.number, o.number)) < 0
}

// pendingReleases are all there are. They take no goroutines: there may be very many. Nothing is called with mu.
type pendingReleases struct {
	n        atomic.Int64 // of all, so that nothing is locked while there are none
	unused   sync.Pool    // of *pendingRelease
	dropped  prometheus.Counter
	logLimit observe.LogLimiter // a line about what is dropped

	mu       sync.Mutex // guards the fields below
	all      map[key]*pendingRelease
	of       map[string]int                 // how many a tenant has
	due      *btree.BTreeG[*pendingRelease] // those whose call is to be made, the first one in front
	last     uint64                         // number of a pending release
	underWay int                            // calls of the loop
	timer    *time.Timer                    // wakes the loop when the first one is due
	closed   bool
}

// newPending is a release that add may make pending. The lease lasts so long.
func (s *Store) newPending(r lock.Return, ttl time.Duration) *pendingRelease {
	u := s.unused.Get().(*pendingRelease) //nolint:forcetypeassert // nothing else is put there
	*u = pendingRelease{key: key{r.Name, r.Owner}, r: r, ttl: ttl, answer: u.answer}
	return u
}

// add puts a pending release in place of an earlier one of its key, which it continues. Its first call is due after the
// given time. Without room it is given up.
func (s *Store) add(u *pendingRelease, after time.Duration) {
	now := time.Now()
	u.made, u.at, u.end = now, now.Add(after), now.Add(u.ttl+keep)
	s.mu.Lock()
	kept := s.addLocked(u)
	s.mu.Unlock()
	if !kept {
		s.drop(u)
	}
}

func (s *Store) addLocked(u *pendingRelease) (kept bool) {
	if s.closed {
		return true // for nobody
	}
	tenant := u.r.Owner.For(u.r.Tenant)
	if old := s.all[u.key]; old != nil {
		u.continues(old)
		s.removeLocked(old)
	} else if len(s.all) >= s.cfg.Most || s.of[tenant] >= s.cfg.Most/tenantPart {
		return false
	}
	s.last++
	u.number = s.last
	s.all[u.key] = u
	s.of[tenant]++
	s.n.Store(int64(len(s.all)))
	s.planLocked(u)
	return true
}

// continues has a pending release want what an earlier one wanted, too: no more is kept than either keeps, and a hold
// of the fence that either names is ended.
func (u *pendingRelease) continues(old *pendingRelease) {
	if u.r.Fence == 0 || old.r.Fence == 0 { // which is any
		u.r.Fence = 0
	} else if old.r.Fence != u.r.Fence {
		u.others = append(old.others, old.r.Fence)
		u.others = u.others[max(len(u.others)-mostOthers, 0):] // the lease of the oldest one ends first
	} else {
		u.others = old.others
	}
	u.r.Keep = min(u.r.Keep, old.r.Keep)
	u.r.Permits = max(u.r.Permits, old.r.Permits)
	if old.r.Permits == 0 {
		u.r.Permits = 0 // it is not known how many there are
	}
	u.made = old.made
	if old.end.After(u.end) {
		u.end = old.end
	}
}

// planLocked has the loop make the calls of a pending release if nobody else does.
func (s *Store) planLocked(u *pendingRelease) {
	if !u.calling && u.asking == 0 {
		s.due.ReplaceOrInsert(u)
	}
}

func (s *Store) removeLocked(u *pendingRelease) {
	s.due.Delete(u)
	delete(s.all, u.key)
	tenant := u.r.Owner.For(u.r.Tenant)
	if s.of[tenant]--; s.of[tenant] <= 0 {
		delete(s.of, tenant)
	}
	s.n.Store(int64(len(s.all)))
}

// drop tells that a pending release is given up.
func (s *Store) drop(u *pendingRelease) {
	s.dropped.Inc()
	s.logLimit.Warn(s.log, "a release is given up; what it would have ended ends with its lease",
		zap.String(observe.KeyName, u.name), zap.String(observe.KeyOwner, string(u.owner)))
}

// want has the loop release what may be there, from a time on.
func (s *Store) want(r lock.Return, ttl, from time.Duration) {
	s.add(s.newPending(r, ttl), from)
	s.work()
}

// putOff puts off the pending releases of those who acquire, and returns them. The acquisition is made after it, so it
// is carried out behind any call of a pending release that is under way. An owner that repeats may be told at another
// replica what it is granted: its pending release ends here, whatever becomes of this acquisition.
func (s *Store) putOff(cs []lock.Claim) (off []*pendingRelease) {
	if s.n.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range cs {
		u := s.all[key{c.Name, c.Owner}]
		switch {
		case u == nil:
		case c.Owner.Repeats():
			s.removeLocked(u)
		default:
			s.due.Delete(u)
			u.asking++
			off = append(off, u)
		}
	}
	return off
}

// hasten releases at once what some owners of a name may have, and does not wait until their places have ended: these
// owners ask no more.
func (s *Store) hasten(name string, owners []lock.Owner) {
	if s.n.Load() == 0 {
		return
	}
	s.mu.Lock()
	for _, o := range owners {
		if u := s.all[key{name, o}]; u != nil {
			if _, planned := s.due.Delete(u); planned {
				u.at = time.Now()
				s.planLocked(u)
			}
		}
	}
	s.mu.Unlock()
	s.work()
}

// resume ends what putOff began: the pending releases are over, or go on. Those that others have taken the place of are
// not touched.
func (s *Store) resume(off []*pendingRelease, over bool) {
	if len(off) == 0 {
		return
	}
	s.mu.Lock()
	for _, u := range off {
		u.asking--
		switch {
		case s.all[u.key] != u:
		case over:
			s.removeLocked(u)
		default:
			s.planLocked(u)
		}
	}
	s.mu.Unlock()
	s.work()
}

// work makes the calls that are due.
func (s *Store) work() {
	for u := s.nextDue(); u != nil; u = s.nextDue() {
		s.call(u)
	}
}

// nextDue is a pending release that is due now, nil if there is none or too many calls are under way.
func (s *Store) nextDue() *pendingRelease {
	s.mu.Lock()
	defer s.mu.Unlock()
	u, some := s.due.Min()
	if !some || s.underWay == s.cfg.UnderWay {
		return nil
	}
	if left := time.Until(u.at); left > 0 {
		if s.timer == nil {
			s.timer = time.AfterFunc(left, s.work)
		} else {
			s.timer.Reset(left)
		}
		return nil
	}
	s.due.DeleteMin()
	s.underWay++
	u.calling = true
	return u
}

// age is how many pending releases there are, and how old the oldest is.
func (s *Store) age(now time.Time) (n int, oldest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.all {
		oldest = max(oldest, now.Sub(u.made))
	}
	return len(s.all), oldest
}

// Wait has all pending releases tried at once, also those that would wait for the end of a place, and waits until none
// are left or ctx ends. It is for the end of the process, when owners ask no more.
func (s *Store) Wait(ctx context.Context) {
	s.mu.Lock()
	for _, u := range s.all {
		if _, planned := s.due.Delete(u); planned {
			u.at = time.Now()
			s.due.ReplaceOrInsert(u)
		}
	}
	s.mu.Unlock()
	s.work()
	for s.n.Load() > 0 && ctx.Err() == nil {
		time.Sleep(lock.Backoff(1))
	}
}

// Close ends all pending releases. What is left ends with its TTL.
func (s *Store) Close() {
	if n := s.n.Load(); n > 0 {
		s.log.Warn("releases are not acknowledged; what they would have ended ends with its lease",
			zap.Int64(observe.KeyCount, n))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, u := range s.all {
		s.removeLocked(u)
	}
	if s.timer != nil {
		s.timer.Stop()
	}
}

// register makes the metrics, and registers them unless reg is nil.
func (s *Store) register(reg prometheus.Registerer) error {
	s.dropped = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "lockd", Subsystem: "settle", Name: "dropped_total",
		Help: "Releases that were given up, because there were too many or they were too old.",
	})
	if reg == nil {
		return nil
	}
	gauge := func(name, help string, value func() float64) error {
		return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "lockd", Subsystem: "settle", Name: name, Help: help,
		}, value))
	}
	return errors.Join(reg.Register(s.dropped),
		gauge("pending", "Releases that the store has not acknowledged yet.",
			func() float64 { return float64(s.n.Load()) }),
		gauge("oldest_seconds", "How long the oldest release has not been acknowledged.",
			func() float64 { _, oldest := s.age(time.Now()); return oldest.Seconds() }))
}
