package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// What a session does with its mutex more than once must not be seen half done. These tests look in between.

// lease is a lease of a session.
type lease struct {
	entry session.Entry
	until time.Time
	looks int
}

func (l *lease) Entry() *session.Entry {
	l.looks++
	return &l.entry
}

// port is a broker that does nothing by itself.
type port struct {
	end func(cause error)
}

func (p *port) Heard(*lock.Mark)         {}
func (p *port) End(cause error)          { p.end(cause) }
func (p *port) Safe() bool               { return true }
func (p *port) Told(session.Event)       {}
func (p *port) Denied(string, int) error { return session.ErrQuota }
func (p *port) Go(func())                {}

func open(p *port) *session.Session[*lease, int] {
	return session.New[*lease, int](session.Config{
		ID: "x", TTL: time.Second, Port: p,
		Limits: limits.Limits{LocksPerSession: 10, WaitersPerSession: 10, WatchesPerSession: 10},
	})
}

// TestNothingIsToldAfterWhatWasNotTold has an outbox run full, and be read before the session is ended.
// It fails if tellLocked does not look whether the session is doomed.
func TestNothingIsToldAfterWhatWasNotTold(t *testing.T) {
	s := open(new(port))
	for range 10_000 { // more than there is room for
		s.Tell(session.Lost{})
	}
	if told := s.Outbox().Take(); len(told) == 0 || len(told) == 10_000 {
		t.Fatalf("%d events are told, want some", len(told))
	}
	s.Heartbeat(1, 1) // the answer speaks of locks whose loss was not told
	if told := s.Outbox().Take(); len(told) > 0 {
		t.Errorf("then %#v is told", told)
	}
}

// TestWhoIsTooLateIsNotAnswered sends a heartbeat between the moment in which a session is found silent and its end.
// It fails if checkSilence does not doom the session.
func TestWhoIsTooLateIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(port)
		s := open(p)
		var cause error
		p.end = func(err error) {
			cause = err
			s.Heartbeat(1, 1)
			s.Retire(err, true)
		}
		s.Start()
		time.Sleep(s.TTL())
		synctest.Wait()
		if told := s.Outbox().Take(); cause == nil || len(told) > 0 {
			t.Errorf("the session is to end with %v, and then %#v is told", cause, told)
		}
	})
}

// take has a session granted a fixed lease.
func take(s *session.Session[*lease, int], id int, l *lease) {
	taken := session.Taken[*lease]{Leases: []*lease{l}, Until: l.until}
	s.Take(uint64(id), id, taken, session.Granted{Validity: session.Validity{Until: l.until}})
}

// TestAtRiskTellsTheFirstEnd has a session hold a lease of an hour, and something else that ends after a minute.
// It fails if Warn looks at auto leases only, or TellChanged does not count the lease.
func TestAtRiskTellsTheFirstEnd(t *testing.T) {
	now := time.Now()
	early, late := &lease{until: now.Add(time.Minute)}, &lease{}
	for what, change := range map[string]func(s *session.Session[*lease, int]){
		"a grant": func(s *session.Session[*lease, int]) {
			take(s, 2, early)
		},
		"a shorter lease": func(s *session.Session[*lease, int]) {
			s.TellChanged(late, true, early.until, session.Extended{})
		},
		"another lock": func(s *session.Session[*lease, int]) {
			take(s, 2, early)
			s.Dismiss(late, 1)
		},
	} {
		t.Run(what, func(t *testing.T) {
			late.until = now.Add(time.Hour)
			s := open(new(port))
			take(s, 1, late)
			change(s)
			s.Warn()
			told := s.Outbox().Take()
			risk, ok := told[len(told)-1].(session.AtRisk)
			if !ok || !risk.Validity.Until.Equal(early.until) {
				t.Errorf("%#v is told, want that leases last a minute", told)
			}
		})
	}
}

// TestAHeartbeatCostsTheSameHoweverMuchIsHeld counts how often leases are looked at.
func TestAHeartbeatCostsTheSameHoweverMuchIsHeld(t *testing.T) {
	s, ls := open(new(port)), make([]*lease, 1000)
	looks := func() (n int) {
		for _, l := range ls {
			n += l.looks
		}
		return n
	}
	for i := range ls {
		ls[i] = &lease{until: time.Now().Add(s.TTL())}
		taken := session.Taken[*lease]{Leases: ls[i : i+1], Auto: true, Until: ls[i].until}
		s.Take(uint64(i), i, taken, session.Done{})
	}
	before := looks()
	if before > 10*len(ls) {
		t.Errorf("leases were looked at %d times while %d were taken", before, len(ls))
	}
	for range 100 {
		s.Heartbeat(0, 1)
	}
	if n := looks() - before; n > 0 {
		t.Errorf("leases were looked at %d times for 100 heartbeats", n)
	}
	if s.Soonest().IsZero() {
		t.Error("no lease counts")
	}
}
