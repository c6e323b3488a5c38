package redisson

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

// take has a process that dies take a thing of each of some names: a client of Redisson in an agent of its own, or of
// lockd in a process of its own. It is not waited for.
func (s *stage) take(who string, things map[string]kind) (kill func()) {
	s.t.Helper()
	if who != "Redisson" {
		p := startPuppet(s, things)
		if who == "lockd" {
			return s.lockd.Kill
		}
		return p.Kill
	}
	a := startAgent(s.t)
	r := a.connect(s.t, "redis://"+s.redis.Addr, s.ttl)
	for name, k := range things {
		r.worker(name).tell("acquire", k.name, name, k.mortal())
	}
	return a.Kill
}

// Who dies, while it holds a name of each kind and is the head of a fair queue, delays the other side by seconds.
// Redisson alone would wait for minutes behind its dead waiter.
func TestTheDeadDelayTheOtherSideBySeconds(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"Redisson", "a client of lockd", "lockd"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, short)
			boss := s.redisson.worker("boss")
			boss.ask("acquire", "fair", "line", 0)
			things := map[string]kind{"line": fair}
			for _, p := range pairs {
				s.prepare(p.holder, p.String())
				things[p.String()] = p.holder
			}
			kill := s.take(who, things)
			s.queued("line", 1)
			var served []func()
			for _, p := range pairs {
				name := p.String()
				harness.Until(t, name+" is held", func() bool { st := s.get(name); return st.GetHeld() || st.GetHolders() > 0 })
				served = append(served, s.waitBehind(who, p.waiter, name))
			}
			served = append(served, s.waitBehind(who, fair, "line"))
			s.queued("line", 2)
			last := s.redisson.worker("last").tell("acquire", "fair", "line", 0)
			s.queued("line", 3)
			time.Sleep(s.ttl / 2) // so that Redisson has an old idea of how long it may take
			kill()
			boss.ask("release", "fair", "line")
			for _, f := range served {
				f()
			}
			last.must()
			s.redisson.worker("main").want(1, "permits", "semaphore", "semaphore")
			s.redisson.worker("main").want(1, "available", "semaphore", "semaphore")
		})
	}
}

// waitBehind has the side of which nobody dies wait for a name. It returns who awaits that it is served.
func (s *stage) waitBehind(who string, k kind, name string) (served func()) {
	s.t.Helper()
	if who == "Redisson" {
		waiter := s.wait(s.lockd.Dial(s.t), k, name)
		s.waiting(name, 1)
		return func() { s.t.Helper(); s.unlock(s.soon(waiter)) }
	}
	w := s.redisson.worker("waits-for-" + name)
	call := w.tell("acquire", k.name, name, 0)
	s.subscribed(name, 1)
	return func() {
		s.t.Helper()
		call.must()
		w.ask("release", k.name, name)
	}
}
