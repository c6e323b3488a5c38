//go:build !windows

package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/lockd-io/lockd/client"
)

const (
	// lostGrace is the time between SIGTERM and SIGKILL when the lock is lost already.
	lostGrace = 200 * time.Millisecond
	// maxGrace bounds the time for which SIGTERM comes before the end of a lease.
	maxGrace = 10 * time.Second
	// minMargin and maxMargin bound the time for which SIGKILL comes before the end of a lease.
	minMargin = 20 * time.Millisecond
	maxMargin = 500 * time.Millisecond
	// idle is how long the guard sleeps when nothing is to be done any more.
	idle = time.Hour
)

// guarded is what the guard needs to know of a lock, or of several.
type guarded interface {
	Err() error
	Deadline() time.Time
}

// group is what the guard acts on.
type group interface{ signal(sig syscall.Signal) }

// guard ends a process group when its lock ends, as late as is safe.
//
// A lease that is renewed is told to be valid for at least a third of its length at any time. The guard therefore
// begins to act at a sixth: by then two answers of the server are missing.
//
//	SIGTERM at deadline - grace,  grace  = validity at the start / 6
//	SIGKILL at deadline - margin, margin = validity at the start / 20
type guard struct {
	lock          guarded
	group         group
	grace, margin time.Duration

	terminated bool
	killAt     time.Time // once terminated
	killed     bool
}

func newGuard(lock guarded, g group) *guard {
	validity := time.Until(lock.Deadline())
	return &guard{
		lock: lock, group: g,
		grace:  min(validity/6, maxGrace),
		margin: min(max(validity/20, minMargin), maxMargin),
	}
}

// step does what is due and says when to look again.
func (g *guard) step(now time.Time) time.Duration {
	deadline := g.lock.Deadline()
	switch {
	case g.killed:
		return idle
	case !now.Before(deadline):
		return g.kill() // somebody else may hold the lock: there is no time to be polite
	case g.lock.Err() != nil:
		g.terminate(earlier(now.Add(lostGrace), deadline.Add(-g.margin)))
	case !now.Before(deadline.Add(-g.grace)):
		g.terminate(deadline.Add(-g.margin))
	case !g.terminated:
		return deadline.Add(-g.grace).Sub(now)
	}
	if !now.Before(g.killAt) {
		return g.kill()
	}
	return g.killAt.Sub(now)
}

// why says why the group was ended, nil if it was not.
func (g *guard) why() error {
	switch {
	case g.lock.Err() != nil:
		return g.lock.Err()
	case g.terminated:
		return fmt.Errorf("%w: its lease was about to end", client.ErrLost)
	}
	return nil
}

// terminate asks the group to end until a time. A later call can only make that earlier.
func (g *guard) terminate(killAt time.Time) {
	if g.terminated {
		g.killAt = earlier(g.killAt, killAt)
		return
	}
	g.terminated, g.killAt = true, killAt
	g.group.signal(syscall.SIGTERM)
	g.group.signal(syscall.SIGCONT) // a stopped process does not hear the first
}

func (g *guard) kill() time.Duration {
	g.killed = true
	g.group.signal(syscall.SIGKILL)
	return idle
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
