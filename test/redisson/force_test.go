package redisson

import (
	"errors"
	"strings"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// What Redisson frees by force, lockd's holder hears of when its lease is renewed, and so do those who wait behind it
// at the same lockd. Others go on at once.
func TestRedissonForcesWhatLockdHolds(t *testing.T) {
	withoutPermits := pairs[:len(pairs)-1] // Redisson cannot
	onEach(t, short, withoutPermits, func(s *stage, p pair, name string) {
		t := s.t
		l := s.lock(s.lockd.Dial(s.t), p.holder, name)
		w := s.bothWait(p.waiter, name)
		s.redisson.worker("admin").want(true, "force", p.holder.name, name)
		s.bothGetIt(p, w, name)
		harness.Soon(t, "lockd's holder hears of it", l.Lost())
		if lost, ok := errors.AsType[*client.LostError](l.Err()); !ok || lost.Reason != client.LostForced {
			t.Errorf("got %v, want it lost: forced", l.Err())
		}
	})
}

func TestLockdForcesWhatRedissonHolds(t *testing.T) {
	onEach(t, short, pairs, func(s *stage, p pair, name string) {
		t := s.t
		s.prepare(p.holder, name)
		holder := s.redisson.worker("holder")
		holder.ask("acquire", p.holder.name, name, 0)
		w := s.bothWait(p.waiter, name)
		_, admin := s.services()
		r, err := admin.ForceRelease(t.Context(), &lockdv1.ForceReleaseRequest{Name: name, Kind: p.holder.proto()})
		if err != nil || !r.GetReleased() {
			t.Fatalf("got %v, %v, want it released", r, err)
		}
		if p.holder.name != "semaphore" {
			holder.want(false, "mine", p.holder.name, name)
		}
		// Who unlocks a fair lock that nobody holds is not told so by Redisson, and some waiter may not have it
		// yet.
		if _, err := holder.tell("release", p.holder.name, name).answer(); err == nil && p.holder.name != "fair" {
			t.Error("Redisson's holder could release what was taken from it")
		}
		s.bothGetIt(p, w, name)
	})
}

// waiters are one of each side.
type waiters struct {
	redisson *worker
	call     *call
	lockd    <-chan granted
}

// bothWait has one of each side wait for a name.
func (s *stage) bothWait(k kind, name string) waiters {
	s.t.Helper()
	w := waiters{redisson: s.redisson.worker("waiter")}
	w.call = w.redisson.tell("acquire", k.name, name, 0)
	if k.name == "fenced" { // whose threads wait for a future
		s.subscribed(name, 1)
	} else {
		w.redisson.waits()
	}
	w.lockd = s.wait(s.lockd.Dial(s.t), k, name)
	s.waiting(name, 1)
	return w
}

// bothGetIt has both sides take their turns.
func (s *stage) bothGetIt(p pair, w waiters, name string) {
	s.t.Helper()
	for range 2 {
		select {
		case <-w.call.done:
			w.call.must()
			w.redisson.ask("release", p.waiter.name, name)
			w.call = &call{}
		case g := <-w.lockd:
			if g.err != nil {
				s.t.Fatal(g.err)
			}
			s.unlock(g.lock)
			w.lockd = nil
		case <-time.After(harness.Patience):
			s.t.Fatal("who waited does not get what was freed")
		}
	}
}

// Redisson's own error for somebody who holds nothing is what it says after its lock was forced, too.
func TestReleaseByOthersIsRefused(t *testing.T) {
	t.Parallel()
	s := newStage(t, long)
	l := s.lock(s.lockd.Dial(s.t), plain, "job")
	if _, err := s.redisson.worker("other").tell("release", "lock", "job").answer(); err == nil ||
		!strings.Contains(err.Error(), "not locked by current thread") {
		t.Errorf("got %v, want Redisson to refuse", err)
	}
	s.unlock(l)
}
