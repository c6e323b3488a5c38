package main

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

// fakeLock is a lock as the guard sees it.
type fakeLock struct {
	deadline time.Time
	err      error
}

func (l *fakeLock) Err() error          { return l.err }
func (l *fakeLock) Deadline() time.Time { return l.deadline }

// fakeGroup writes down what it is sent, and when.
type fakeGroup struct {
	now  func() time.Duration
	seen []string
}

func (g *fakeGroup) signal(sig syscall.Signal) {
	if sig != syscall.SIGCONT {
		g.seen = append(g.seen, fmt.Sprint(g.now(), " ", sig))
	}
}

// drive runs a guard over a lease of 30 s. at is what happens, by the time at which it does.
func drive(t *testing.T, at map[time.Duration]func(*fakeLock), want ...string) {
	t.Helper()
	begun := time.Now()
	now := begun
	l := &fakeLock{deadline: begun.Add(30 * time.Second)}
	grp := &fakeGroup{now: func() time.Duration { return now.Sub(begun) }}
	g := newGuard(l, grp, begun)
	for now.Sub(begun) < 2*time.Minute {
		next := now.Add(g.step(now))
		for d := range at {
			if e := begun.Add(d); e.After(now) && e.Before(next) {
				next = e
			}
		}
		now = next
		if f := at[now.Sub(begun)]; f != nil {
			f(l)
		}
	}
	if !slices.Equal(grp.seen, want) {
		t.Errorf("got %q, want %q", grp.seen, want)
	}
}

func TestGuardAtTheEndOfTheLease(t *testing.T) {
	drive(t, nil, "25s terminated", "29s killed")
}

func TestGuardOfALeaseThatIsRenewed(t *testing.T) {
	renew := func(l *fakeLock) { l.deadline = l.deadline.Add(20 * time.Second) }
	drive(t, map[time.Duration]func(*fakeLock){10 * time.Second: renew, 30 * time.Second: renew}, "1m5s terminated",
		"1m9s killed")
}

func TestGuardWhenTheLockIsLost(t *testing.T) {
	lose := func(l *fakeLock) { l.err = client.ErrLost }
	drive(t, map[time.Duration]func(*fakeLock){3 * time.Second: lose}, "3s terminated", "3.2s killed")
	// Being lost shortens the grace, being renewed does not lengthen it.
	drive(t, map[time.Duration]func(*fakeLock){26 * time.Second: lose}, "25s terminated", "26.2s killed")
	drive(t, map[time.Duration]func(*fakeLock){
		26 * time.Second: func(l *fakeLock) { l.deadline = l.deadline.Add(time.Minute) },
	}, "25s terminated", "29s killed")
}

func TestGuardAfterAPause(t *testing.T) {
	now := time.Now()
	l := &fakeLock{deadline: now.Add(time.Second)}
	grp := &fakeGroup{now: func() time.Duration { return 0 }}
	g := newGuard(l, grp, now)
	g.step(now)
	g.step(l.deadline.Add(time.Minute)) // stopped in between
	if want := []string{"0s killed"}; !slices.Equal(grp.seen, want) {
		t.Errorf("got %q, want %q: there is no time for SIGTERM", grp.seen, want)
	}
	if err := g.why(); err != nil {
		t.Errorf("got %v before the lock says so", err)
	}
	l.err = &client.LostError{Reason: client.LostDeadline}
	if err := g.why(); !errors.Is(err, client.ErrLost) {
		t.Errorf("got %v", err)
	}
}
