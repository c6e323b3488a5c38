package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/benchtest"
)

// at is a moment long after a Client was made, so that no alarm rings by itself.
func at(minute int) instant { return instant(time.Hour + time.Duration(minute)*time.Minute) }

// held is a session that holds locks of fixed times, with a deadline for each.
func (c *Client) held(deadlines []int) (*session, []*Lock) {
	s := c.newSession()
	c.mu.Lock()
	defer c.mu.Unlock()
	var locks []*Lock
	for i, minute := range deadlines {
		h := &lockdv1.Hold{Name: fmt.Sprintf("name-%06d", i), Kind: lockdv1.LockKind(Exclusive), Holder: "#1", Fence: 1}
		l := s.newLock(context.Background(), h)
		s.addLocked(l, validity{deadline: at(minute)}, 0, false)
		locks = append(locks, l)
	}
	return s, locks
}

// pass has the clock show half a minute more than at, and the alarm ring.
func (s *session) pass(minute int) {
	s.client.base = time.Now().Add(-time.Duration(at(minute)) - time.Minute/2)
	s.ring()
	s.alarm.Stop()
}

// dialled is a Client that is not connected.
func dialled(t *testing.T) *Client {
	t.Helper()
	c, err := Dial("localhost")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it has no session
	return c
}

// Each of many leases ends alone. Those that do not are not looked at for it.
func TestTheEndOfOneOfManyLeasesCostsNoLookAtAll(t *testing.T) {
	benchtest.Linear(t, 500, func(n int) func() {
		deadlines := rand.Perm(n)
		s, _ := dialled(t).held(deadlines)
		return func() {
			for i := range n {
				s.pass(i)
				if left := len(s.holds); left != n-i-1 {
					t.Fatalf("%d of %d are held after %d have ended", left, n, i+1)
				}
			}
		}
	})
}

// Deadlines move, later and earlier, and locks are unlocked. Each lock ends at its last deadline.
func TestEachLeaseEndsAtItsOwnDeadline(t *testing.T) {
	const n = 300
	rng := rand.New(rand.NewPCG(1, 2))
	s, locks := dialled(t).held(rng.Perm(n))
	s.alarm.Stop()
	for i, l := range locks {
		h, to := l.hold, at(rng.IntN(2*n))
		switch i % 4 {
		case 0:
			s.removeLocked(l)
		case 1:
			s.raiseLocked(h, validity{deadline: max(to, h.end())})
		case 2: // as a Shorten has it
			h.deadline.Store(int64(min(to, h.end())))
			s.alarmLocked(h)
		}
	}
	for minute := range 2 * n {
		s.pass(minute)
		for i, l := range locks {
			want := i%4 != 0 && l.hold.end() > at(minute)
			if held := slices.Contains(l.hold.locks, l); held != want {
				t.Fatalf("at %d lock %d with the deadline %v is held: %t", minute, i, time.Duration(l.hold.end()), held)
			}
		}
	}
}

// Locks that are unlocked long before their deadlines leave nothing behind.
func TestNothingIsLeftOfLocksThatAreUnlocked(t *testing.T) {
	s, _ := dialled(t).held([]int{1000})
	for i := range 10_000 {
		l := s.newLock(context.Background(), &lockdv1.Hold{Name: fmt.Sprint(i), Fence: 1})
		s.addLocked(l, validity{deadline: at(2000 + i)}, 0, false)
		s.removeLocked(l)
		if len(s.alarms) > 2*fewAlarms {
			t.Fatalf("there are %d alarms for one lock", len(s.alarms))
		}
	}
}
