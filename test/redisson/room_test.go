package redisson

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// stay is how long a visit takes at least, so that who comes in without a lock meets somebody.
const stay = 100 * time.Microsecond

// room is a directory that visitors of both sides enter: those of Redisson by Room.java. It has
//
//	limit    how many permits the semaphore has that guards it
//	inside/  a file for each who is inside, ROLE-SIDE-WHO: r for readers, p for permits, w for who must be alone
//	counter  "VISITS FENCE SIDE TURNS" of those who were alone: how many, the last fence, whose was the last visit, and
//	         how often the other side came next
//
// The counter is read, and written back later, without any protection but the lock.
type room struct {
	dir   string
	limit int

	mu     sync.Mutex // guards the field below
	faults []error
}

func newRoom(t *testing.T, limit int) *room {
	t.Helper()
	r := &room{dir: t.TempDir(), limit: limit}
	err := errors.Join(
		os.Mkdir(filepath.Join(r.dir, "inside"), 0o700),
		os.WriteFile(filepath.Join(r.dir, "limit"), fmt.Append(nil, limit), 0o600),
		os.WriteFile(filepath.Join(r.dir, "counter"), []byte("0 0 nobody 0"), 0o600),
	)
	harness.Must(t, err)
	return r
}

// enter makes one visit under a lock of lockd.
func (r *room) enter(kind, who string, fence uint64) error {
	role := "w"
	switch kind {
	case "read":
		role = "r"
	case "semaphore":
		if r.limit > 1 {
			role = "p"
		}
	}
	mark := filepath.Join(r.dir, "inside", role+"-lockd-"+who)
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}
	err := r.look(role, who)
	if err == nil {
		switch role {
		case "w":
			err = r.change(fence)
		case "r":
			err = r.read()
		default:
			time.Sleep(stay)
		}
	}
	return errors.Join(err, os.Remove(mark))
}

// look sees whether the others inside may be there.
func (r *room) look(role, who string) error {
	all, err := os.ReadDir(filepath.Join(r.dir, "inside"))
	if err != nil {
		return err
	}
	fine := role == "w" && len(all) == 1 || role == "p" && len(all) <= r.limit || role == "r"
	for _, file := range all {
		fine = fine && (role != "r" || strings.HasPrefix(file.Name(), "r"))
	}
	if !fine {
		r.fault(fmt.Errorf("%s met %v", who, all))
	}
	return nil
}

func (r *room) change(fence uint64) error {
	c, err := r.counter()
	if err != nil {
		return err
	}
	time.Sleep(stay)
	if fence <= c.fence {
		r.fault(fmt.Errorf("fence %d after %d", fence, c.fence))
	}
	if c.side != "lockd" {
		c.turns++
	}
	return os.WriteFile(filepath.Join(r.dir, "counter"),
		fmt.Appendf(nil, "%d %d lockd %d", c.visits+1, max(fence, c.fence), c.turns), 0o600)
}

func (r *room) read() error {
	before, err := r.counter()
	if err != nil {
		return err
	}
	time.Sleep(stay)
	after, err := r.counter()
	if before != after {
		r.fault(fmt.Errorf("read %v, then %v", before, after))
	}
	return err
}

// counter is what the file of that name has.
type counter struct {
	visits int
	fence  uint64
	side   string
	turns  int
}

func (r *room) counter() (c counter, err error) {
	text, err := os.ReadFile(filepath.Join(r.dir, "counter"))
	if err == nil {
		_, err = fmt.Sscan(string(text), &c.visits, &c.fence, &c.side, &c.turns)
	}
	return c, err
}

func (r *room) fault(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, err)
}

// verdict is nil if nothing was wrong and so many visits are there.
func (r *room) verdict(visits int) (counter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, err := r.counter()
	if err == nil && c.visits != visits {
		err = fmt.Errorf("%d visits are left of %d", c.visits, visits)
	}
	if len(r.faults) > 0 {
		err = errors.Join(err, fmt.Errorf("%d faults, the first: %w", len(r.faults), r.faults[0]))
	}
	return c, err
}

// enterers is how many visitors each side has.
const enterers = 8

// visitors is what happens to a room.
type visitors struct {
	kind   string                    // for the agent, as name is
	name   string                    // of the lock
	visits int                       // of all, of both sides
	lock   func(i, visit int) locker // the lock of lockd's visitor i for a visit
}

// locker takes a lock of lockd.
type locker struct {
	kind string // as what the room is entered
	take func() (fence uint64, unlock func() error, err error)
}

// lockerOf is a locker by the SDK.
func (s *stage) lockerOf(c *client.Client, k kind, name string) locker {
	return locker{kind: k.name, take: func() (uint64, func() error, error) {
		l, err := c.Lock(s.t.Context(), name, k.opts...)
		if err != nil {
			return 0, nil, err
		}
		return l.Fence(), func() error { return l.Unlock(s.t.Context()) }, nil
	}}
}

// visit has both sides enter a room until all visits are made. What is wrong is in the room's verdict.
func (s *stage) visit(r *room, v visitors) {
	s.t.Helper()
	each := v.visits / (2 * enterers)
	var calls []*call
	for i := range enterers {
		calls = append(calls, s.redisson.worker(fmt.Sprint("visitor", i)).tell("visit", v.kind, v.name, r.dir, each))
	}
	var wg sync.WaitGroup
	for i := range enterers {
		wg.Go(func() {
			for visit := range each {
				if err := r.visit(v.lock(i, visit), fmt.Sprint(i)); err != nil {
					r.fault(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, c := range calls {
		if fault, err := c.answer(); err != nil || fault != "" {
			r.fault(fmt.Errorf("redisson: %s %w", fault, err))
		}
	}
}

func (r *room) visit(l locker, who string) error {
	fence, unlock, err := l.take()
	if err != nil {
		return err
	}
	return errors.Join(r.enter(l.kind, who, fence), unlock())
}
