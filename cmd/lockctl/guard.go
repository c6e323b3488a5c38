package main

import (
	"fmt"
	"math"
	"syscall"
	"time"

	"github.com/lockd-io/lockd/client"
)

// longestNotice bounds the time for which SIGTERM comes before the end of a lease.
const longestNotice = 10 * time.Second

// guarded is what the guard needs to know of a lock, or of several.
type guarded interface {
	Err() error
	Deadline() time.Time
}

// group is what the guard acts on.
type group interface{ signal(sig syscall.Signal) }

// guard ends a process group when its lock ends, as late as is safe.
//
// While a lease is renewed at least a third of its length is left at any time. So the guard begins to act at a sixth:
// by then two answers of the server are missing.
//
//	SIGTERM at deadline - notice,     notice = validity at the start / 6
//	SIGKILL at deadline - notice / 5
type guard struct {
	lock   guarded
	group  group
	notice time.Duration

	terminated bool
	killAt     time.Time // once terminated
	killed     bool
}

func newGuard(lock guarded, g group, now time.Time) *guard {
	return &guard{lock: lock, group: g, notice: min(lock.Deadline().Sub(now)/6, longestNotice)}
}

// step does what is due and says when the next step is due.
func (g *guard) step(now time.Time) time.Duration {
	deadline := g.lock.Deadline()
	last := deadline.Add(-g.notice / 5)
	switch {
	case g.killed:
		return never
	case !now.Before(deadline):
		return g.kill() // somebody else may hold the lock: there is no time to be polite
	case g.lock.Err() != nil:
		g.terminate(earlier(now.Add(grace), last))
	case !now.Before(deadline.Add(-g.notice)):
		g.terminate(last)
	case !g.terminated:
		return deadline.Add(-g.notice).Sub(now)
	}
	if !now.Before(g.killAt) {
		return g.kill()
	}
	return g.killAt.Sub(now)
}

// never is how long the next step is away once nothing is left to do.
const never = math.MaxInt64

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

// terminate asks the group to end by killAt. A later call can only make that time earlier.
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
	return never
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
