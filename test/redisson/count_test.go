package redisson

import (
	"maps"
	"slices"
	"testing"

	"github.com/lockd-io/lockd/client"
)

func TestRedissonSeesWhatLockdHoldsSeveralTimes(t *testing.T) {
	onEach(t, long, []kind{plain, fenced, fair, read, write}, func(s *stage, k kind, name string) {
		t := s.t
		c, r := s.lockd.Dial(s.t), s.redisson.worker("other")
		named := k.with(client.Holder("me"))
		r.want(false, "locked", k.name, name)
		r.want(-2, "ttl", k.name, name)
		var locks []*client.Lock
		for n := 1; n <= 3; n++ {
			locks = append(locks, s.lock(c, named, name))
			s.wantCount(name, n)
		}
		for n := 3; n >= 1; n-- {
			r.want(true, "locked", k.name, name)
			r.want(false, "mine", k.name, name)
			r.want(0, "count", k.name, name) // of its own
			r.want(false, "try", k.rival().name, name, 0, 0)
			if ttl := r.number("ttl", k.name, name); ttl <= 0 || ttl > int(long.Milliseconds()) {
				t.Errorf("Redisson: %d ms remain, want up to %v", ttl, long)
			}
			s.wantCount(name, n)
			s.unlock(locks[n-1])
		}
		r.want(false, "locked", k.name, name)
		r.want(true, "try", k.name, name, 0, 0)
	})
}

func TestLockdSeesWhatRedissonHoldsSeveralTimes(t *testing.T) {
	onEach(t, long, []kind{plain, fenced, fair, read, write}, func(s *stage, k kind, name string) {
		t := s.t
		c, r := s.lockd.Dial(s.t), s.redisson.worker("me")
		for n := 1; n <= 3; n++ {
			r.ask("acquire", k.name, name, 0)
			r.want(n, "count", k.name, name)
		}
		for n := 3; n >= 1; n-- {
			st := s.get(name)
			if !st.GetHeld() || int(st.GetHoldCount()) != n || st.GetHeldBy() != r.ask("owner") {
				t.Errorf("lockd: got %v, want it held %d times by %s", st, n, r.ask("owner"))
			}
			// Each time that Redisson takes a write lock it adds a lease.
			if ttl := st.GetTtl().AsDuration(); ttl <= 0 || ttl > 3*long {
				t.Errorf("lockd: %v remain, want up to %v", ttl, 3*long)
			}
			if l, err := c.TryLock(t.Context(), name, k.rival().opts...); err == nil {
				t.Errorf("lockd granted what Redisson holds: %d", l.Fence())
			}
			r.ask("release", k.name, name)
		}
		if st := s.get(name); st.GetHeld() {
			t.Errorf("lockd: got %v, want it free", st)
		}
		s.unlock(s.lock(c, k, name))
	})
}

// wantCount checks what lockd says. In Redis it is held once.
func (s *stage) wantCount(name string, want int) {
	s.t.Helper()
	hash, err := s.rc.HGetAll(s.t.Context(), name).Result()
	delete(hash, "mode")
	counts := slices.Collect(maps.Values(hash))
	if err != nil || !slices.Equal(counts, []string{"1"}) {
		s.t.Errorf("Redis has the counts %q (%v), want 1", counts, err)
	}
	if got := int(s.get(name).GetHoldCount()); got != want {
		s.t.Errorf("lockd says it is held %d times, want %d", got, want)
	}
}
