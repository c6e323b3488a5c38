package session_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watching"
	"github.com/lockd-io/lockd/test/harness"
)

// What a session does with its mutex more than once must not be seen half done. These tests look in between.

// lease is a lease of a session.
type lease struct {
	entry session.Entry
	auto  bool
	until time.Time
	looks int
}

func (l *lease) Entry() *session.Entry {
	l.looks++
	return &l.entry
}

func (l *lease) Hold() session.Hold                        { return session.Hold{} }
func (l *lease) Terms() session.Terms                      { return session.Terms{Auto: l.auto, Until: l.until} }
func (l *lease) Describe() (h session.HeldLock, held bool) { return h, true }
func (l *lease) Hurry()                                    {}
func (l *lease) Adopt() bool                               { return true }
func (l *lease) Leave(bool)                                {}
func (*lease) Forbid() bool                                { return false }
func (*lease) Free(func())                                 {}
func (l *lease) Release()                                  {}

// waiter is a request, and what is done when it is withdrawn.
type waiter struct{ withdrawn func() }

func (w *waiter) Withdraw()             { w.withdrawn() }
func (*waiter) Review(session.Identity) {}
func (w *waiter) Cancel() bool          { return false }

// open opens a session. At the end of the test nothing that it began is under way.
func open(t *testing.T) *session.Session { return openIn(t, memstore.New()) }

func openIn(t *testing.T, store lock.Store) *session.Session {
	under := new(sync.WaitGroup)
	most := limits.Limits{LocksPerSession: 10, WaitersPerSession: 10, WatchesPerSession: 10, Sessions: 10}
	denied := func(string, int) error { return session.ErrQuota }
	r := session.NewRegistry(t.Context(), session.Config{
		Limits: most, Tenants: limits.NewTenants(most, denied), Watching: watching.New(store), Denied: denied,
		Log: zap.NewNop(), Heard: func(*lock.Note) {}, Begin: func() { under.Add(1) }, End: under.Done,
	}, store)
	s := r.New(session.OpenRequest{TTL: time.Second}, "x", session.NewToken(), 1, 0)
	harness.Must(t, s.Open())
	t.Cleanup(func() {
		r.EndAll()
		under.Wait()
	})
	return s
}

// TestNothingIsToldAfterWhatWasNotTold has an outbox run full, and be read before the session has left everything.
// It fails if tellLocked does not retire the session in the same moment.
func TestNothingIsToldAfterWhatWasNotTold(t *testing.T) {
	s := open(t)
	for range 10_000 { // more than there is room for
		s.Tell(session.Lost{})
	}
	if told := s.Outbox().TakeSome(math.MaxInt, math.MaxInt); len(told) == 0 || len(told) == 10_000 {
		t.Fatalf("%d events are told, want some", len(told))
	}
	s.Heartbeat(1, 1) // the answer speaks of locks whose loss was not told
	if told := s.Outbox().TakeSome(math.MaxInt, math.MaxInt); len(told) > 0 {
		t.Errorf("then %#v is told", told)
	}
}

// TestNothingIsToldOfAFullOutbox is the same for a session that said Goodbye, which is told what was under way then.
// It fails if a full outbox has room again when it was read.
func TestNothingIsToldOfAFullOutbox(t *testing.T) {
	s := open(t)
	s.Goodbye()
	for range 10_000 {
		s.Tell(session.Lost{})
	}
	if told := s.Outbox().TakeSome(math.MaxInt, math.MaxInt); len(told) == 0 || len(told) == 10_000 {
		t.Fatalf("%d events are told, want some", len(told))
	}
	s.Tell(session.Released{})
	if told := s.Outbox().TakeSome(math.MaxInt, math.MaxInt); len(told) > 0 {
		t.Errorf("then %#v is told", told)
	}
}

// TestWhoIsTooLateIsNotAnswered sends a heartbeat while a session that was found silent leaves what it has.
// It fails if checkSilence does not retire the session first.
func TestWhoIsTooLateIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		withdrawn := false
		w := &waiter{func() {
			withdrawn = true
			s.Heartbeat(1, 1)
		}}
		harness.Must(t, s.AddWaiter(1, w, session.Want{Locks: 1, Weight: 1}))
		time.Sleep(s.TTL())
		synctest.Wait()
		if told := s.Outbox().TakeSome(math.MaxInt, math.MaxInt); !withdrawn || len(told) > 0 {
			t.Errorf("the session has ended: %t, and then %#v is told", withdrawn, told)
		}
	})
}

// take has a session granted a fixed lease.
func take(s *session.Session, id int, l *lease) {
	s.Take(uint64(id), nil, []session.Lease{l})
}

// TestAtRiskTellsTheFirstEnd has a session hold a lease of an hour, and something else that ends after a minute.
// It fails if Session.warn looks at auto leases only, or TellChanged does not count the lease.
func TestAtRiskTellsTheFirstEnd(t *testing.T) {
	now := time.Now()
	early, late := &lease{until: now.Add(time.Minute)}, &lease{}
	for what, change := range map[string]func(s *session.Session){
		"a grant": func(s *session.Session) {
			take(s, 2, early)
		},
		"a shorter lease": func(s *session.Session) {
			late.auto, late.until = true, early.until
			s.TellChanged(late, session.Extended{})
		},
		"another lock": func(s *session.Session) {
			take(s, 2, early)
			s.Dismiss(late, false)
		},
	} {
		t.Run(what, func(t *testing.T) {
			late.auto, late.until = false, now.Add(time.Hour)
			s := open(t)
			take(s, 1, late)
			change(s)
			s.Registry().AtRisk()
			told := s.Outbox().TakeSome(math.MaxInt, math.MaxInt)
			risk, ok := told[len(told)-1].(session.AtRisk)
			if !ok || !risk.Validity.Until.Equal(early.until) {
				t.Errorf("%#v is told, want that leases last a minute", told)
			}
		})
	}
}

// TestHeartbeatsSeldomLookAtAllThatIsHeld counts how often leases are looked at: when they have been renewed, and when
// they end because they are not.
func TestHeartbeatsSeldomLookAtAllThatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ls := open(t), make([]*lease, 1000)
		looks := func() (n int) {
			for _, l := range ls {
				n += l.looks
				l.looks = 0
			}
			return n
		}
		for i := range ls {
			ls[i] = &lease{auto: true, until: time.Now().Add(s.TTL())}
			s.Take(uint64(i), nil, []session.Lease{ls[i]})
		}
		if n := looks(); n > 10*len(ls) {
			t.Errorf("leases were looked at %d times while %d were taken", n, len(ls))
		}
		for part, most := range []int{9, 9, 70} { // with a third of their time left they are looked at more often
			for range 1000 {
				s.Heartbeat(0, 1)
				time.Sleep(s.TTL() / 3000)
			}
			if n := looks(); n > most*len(ls) {
				t.Errorf("%d leases were looked at %d times in part %d of 3000 heartbeats", len(ls), n, part)
			}
		}
		if s.Soonest().IsZero() {
			t.Error("no lease counts")
		}
	})
}

// TestAHeartbeatIsNotAnsweredWithWhatHasEnded renews leases when they have nearly ended.
// It fails if all leases are looked at no more often near their end.
func TestAHeartbeatIsNotAnsweredWithWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		end := time.Now().Add(s.TTL() / 2)
		var ls []*lease
		for i := range 1000 {
			ls = append(ls, &lease{auto: true, until: end})
			s.Take(uint64(i), nil, []session.Lease{ls[i]})
		}
		for time.Until(end) > s.TTL()/100 {
			s.Heartbeat(0, 1)
			time.Sleep(s.TTL() / 1000)
		}
		for _, l := range ls {
			l.until = time.Now().Add(s.TTL())
			s.Renewed(l)
		}
		time.Sleep(time.Until(end))
		if told := s.Soonest(); time.Until(told) < s.TTL()/2 {
			t.Errorf("the leases are said to end in %v", time.Until(told))
		}
	})
}

// away is a store that ends no session, and has lost their records once it was asked to.
type away struct {
	lock.Store
	lost  atomic.Bool
	asked atomic.Int64
}

func (a *away) EndSession(context.Context, string, uint64) error {
	a.lost.Store(true)
	return lock.ErrUnavailable
}

func (a *away) StartKeepSession(k lock.SessionKeep, done func(error)) {
	if a.asked.Add(1); !a.lost.Load() {
		a.Store.StartKeepSession(k, done)
		return
	}
	go done(lock.ErrSessionGone)
}

// TestNobodyAsksForEverWhoseASessionIs ends a session whose record can not be ended, and is lost.
// It fails if freeAtEnd does not note that it leaves the leases: a call every two seconds for each such session.
func TestNobodyAsksForEverWhoseASessionIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &away{Store: memstore.New()}
		s := openIn(t, store)
		s.Goodbye()
		synctest.Wait()
		s.IfStillHere(func() { t.Error("a lease is released that somebody else may have") })
		time.Sleep(time.Minute)
		synctest.Wait()
		asked := store.asked.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		if more := store.asked.Load() - asked; asked < 2 || more > 0 || !s.LeavesLeases() {
			t.Errorf("the store was asked %d times, and then %d more; leases are left: %t", asked, more, s.LeavesLeases())
		}
	})
}
