package redisson

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// expireWithin is how long after the death of a holder who waits on the other side has the lock, at most.
const expireWithin = short + time.Second

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
	others, killed := s.load(), time.Now()
	victim.Kill()
	var wg sync.WaitGroup
	for i, p := range pairs {
		wg.Go(func() {
			select {
			case g := <-waiters[i]:
				s.late("lockd", p, g.err, g.at.Sub(killed), others)
			case <-time.After(patience):
				t.Errorf("lockd never has %v", p)
			}
		})
	}
	wg.Wait()
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
func (s *stage) outlive(victim *harness.Process) {
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
	others, killed := s.load(), time.Now()
	victim.Kill()
	for i, p := range pairs {
		_, err := waiters[i].answer()
		s.late("Redisson", p, err, waiters[i].at.Sub(killed), others)
	}
}

// late judges a grant after a death.
func (s *stage) late(who string, p pair, err error, took time.Duration, others *proctest.Load) {
	s.t.Helper()
	s.t.Logf("%v: %s has it %v after the death", p, who, took.Round(time.Millisecond))
	switch {
	case err != nil:
		s.t.Errorf("%v: %v", p, err)
	case others.Off(took) > expireWithin:
		s.t.Errorf("%v: that is later than %v", p, expireWithin)
	}
}
