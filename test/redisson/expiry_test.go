package redisson

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
)

func TestLockdGetsWhatAKilledRedissonHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t, short)
	victim := startAgent(t)
	r := victim.connect(t, "redis://"+s.redis.Addr, short)
	var waiters []<-chan granted
	for i, p := range pairs {
		s.prepare(p.holder, p.String())
		r.worker(i).ask("acquire", p.holder.name, p.String(), p.holder.mortal())
		waiters = append(waiters, s.wait(s.lockd.Dial(s.t), p.waiter, p.String()))
	}
	for _, p := range pairs {
		s.waiting(p.String(), 1)
	}
	victim.Kill()
	for _, waiter := range waiters {
		s.soon(waiter)
	}
}

func TestRedissonGetsWhatAKilledClientOfLockdHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t, short)
	victim := startPuppet(s, holders()...)
	victim.holds(len(pairs))
	s.outlive(victim.Process)
}

func TestRedissonGetsWhatAKilledLockdHeld(t *testing.T) {
	t.Parallel()
	s := newStage(t, short)
	startPuppet(s, holders()...).holds(len(pairs))
	s.outlive(s.lockd.Process)
}

// holders is what a puppet is to hold, for each of the pairs.
func holders() (things []string) {
	for _, p := range pairs {
		things = append(things, fmt.Sprintf("%s:%v", p.holder.name, p))
	}
	return things
}

// outlive has Redisson wait for all pairs, kills a process, and sees when Redisson has them.
func (s *stage) outlive(victim *proctest.Process) {
	s.t.Helper()
	var waiters []*call
	for i, p := range pairs {
		waiters = append(waiters, s.redisson.worker(i).tell("acquire", p.waiter.name, p.String(), 0))
	}
	for _, p := range pairs {
		s.subscribed(p.String(), 1)
	}
	time.Sleep(s.ttl / 2) // so that Redisson has an old idea of how long it may take
	for i, p := range pairs {
		if waiters[i].answered() {
			s.t.Errorf("Redisson has %v while it is held: %v", p, waiters[i].err)
		}
	}
	victim.Kill()
	for _, waiter := range waiters {
		waiter.must()
	}
}
