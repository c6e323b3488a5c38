package redisson

import (
	"errors"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func TestLockdWaitsForAllWhileRedissonHoldsOne(t *testing.T) {
	onEach(t, long, []kind{plain, fair, read, semaphore}, func(s *stage, k kind, name string) {
		t, a, b, c := s.t, name+"-a", name+"-b", name+"-c"
		s.prepare(k, b)
		us, r, other := s.lockd.Dial(s.t), s.redisson.worker("holder"), s.redisson.worker("other")
		r.ask("acquire", k.name, b, 0)
		items := []client.Item{{Name: a}, {Name: b, Kind: kindOf(k.rival())}, {Name: c, Kind: client.Fair}}
		if _, err := us.TryLockAll(t.Context(), items); !errors.Is(err, client.ErrHeld) {
			t.Errorf("got %v, want it held", err)
		}
		out := make(chan *client.Locks, 1)
		go func() {
			ls, err := us.LockAll(t.Context(), items)
			if err != nil {
				t.Error(err)
			}
			out <- ls
		}()
		s.waiting(b, 1)
		other.want(true, "try", "lock", a, 0, 0) // nothing is held by who waits
		other.want(true, "try", "fair", c, 0, 0)
		other.ask("release", "lock", a)
		other.ask("release", "fair", c)
		r.ask("release", k.name, b)
		ls := harness.Soon(t, "lockd has all", out)
		for _, name := range []string{a, c} {
			other.want(false, "try", "lock", name, 0, 0)
		}
		if err := ls.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		r.want(true, "try", "multi", "lock:"+a+",fair:"+c, 0, 0)
	})
}

// kindOf is a kind as an Item has it.
func kindOf(k kind) client.Kind { return client.Kind(k.proto()) }

func TestRedissonWaitsForAllWhileLockdHoldsOne(t *testing.T) {
	onEach(t, long, []kind{plain, fair, read, write}, func(s *stage, k kind, name string) {
		t, a, b, c := s.t, name+"-a", name+"-b", name+"-c"
		r, all := s.redisson.worker("all"), "lock:"+a+","+k.rival().name+":"+b+",fair:"+c
		l := s.lock(s.lockd.Dial(s.t), k, b)
		r.want(false, "try", "multi", all, 0, 0)
		for _, name := range []string{a, c} { // nothing is kept
			if st := s.get(name); st.GetHeld() {
				t.Errorf("lockd: got %v, want it free", st)
			}
		}
		waiter := r.tell("acquire", "multi", all, 0)
		r.waits()
		s.unlock(l)
		waiter.must()
		for _, name := range []string{a, b, c} {
			if st := s.get(name); !st.GetHeld() || st.GetHeldBy() != r.ask("owner") {
				t.Errorf("lockd: got %v, want it held by %s", st, r.ask("owner"))
			}
		}
		r.ask("release", "multi", all)
		for _, name := range []string{a, b, c} {
			s.unlock(s.lock(s.lockd.Dial(s.t), plain, name))
		}
	})
}
