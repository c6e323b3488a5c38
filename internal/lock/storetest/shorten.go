package storetest

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// shorten has a hold end ttl from now.
func (s *suite) shorten(r lock.Renewal, ttl time.Duration) error {
	s.Helper()
	r.TTL = ttl
	return s.Store.Shorten(s.Context(), r)
}

var shortenContract = []contract{
	{"EachKindEndsEarlier", func(s *suite) {
		for _, kind := range s.these() {
			s.Run(kind.String(), func(t *testing.T) {
				s := &suite{T: t, Rig: s.Rig}
				c := of(kind, "n-"+kind.String(), "o")
				g := s.acquire(c)
				for _, want := range []time.Duration{10 * time.Second, 30 * time.Second} { // it is set, also to a later end
					for range 2 {
						s.must(s.shorten(on(c, g.Fence), want))
						s.wantTTL(s.look(c.Name).TTL, want)
					}
				}
				s.must(s.renew(on(c, g.Fence)))
				s.wantTTL(s.look(c.Name).TTL, ttl)
				s.must(s.shorten(on(c, g.Fence), 50*time.Millisecond))
				time.Sleep(100 * time.Millisecond)
				if st := s.look(c.Name); st.Held {
					s.Errorf("got %+v, want nobody", st)
				}
				s.wantGone(s.shorten(on(c, g.Fence), time.Second), lock.LostForced)
			})
		}
	}},
	{"OnlyTheHoldItself", func(s *suite) {
		g := s.acquire(claim("n", "a"))
		s.wantGone(s.shorten(on(claim("n", "b"), g.Fence), time.Second), lock.LostForced)
		s.wantGone(s.shorten(on(claim("n", "a"), g.Fence+1), time.Second), lock.LostData)
		s.wantTTL(s.look("n").TTL, ttl)
		s.must(s.Hooks.Occupy("m"))
		s.wantGone(s.shorten(on(claim("m", "a"), 1), time.Second), lock.LostData)
		s.wantErr(s.Store.Shorten(s.ended(), on(claim("n", "a"), g.Fence)), lock.ErrUnavailable)
	}},
	{"ReadersKeepTheirTime", func(s *suite) {
		a, b := of(lock.Read, "n", "a"), of(lock.Read, "n", "b")
		a.TTL = 40 * time.Second
		fa, fb := s.acquire(a).Fence, s.acquire(b).Fence
		s.must(s.shorten(on(a, fa), 10*time.Second))
		s.wantTTL(s.look("n").TTL, ttl)
		s.must(s.shorten(on(b, fb), 20*time.Second))
		s.wantTTL(s.look("n").TTL, 20*time.Second)
		s.must(s.renew(on(a, fa)))
		s.release(back(b, fb))
		s.wantTTL(s.look("n").TTL, ttl)
	}},
	{"AWriterEndsNoEarlierThanItsOwnReads", func(s *suite) {
		w, r := of(lock.Write, "n", "w"), readsToo("r", "w")
		r.TTL = 40 * time.Second
		fw, fr := s.acquire(w).Fence, s.acquire(r).Fence
		s.must(s.shorten(on(r, fr), 20*time.Second))
		s.wantTTL(s.look("n").TTL, ttl) // the writer's
		s.must(s.shorten(on(w, fw), 10*time.Second))
		s.wantTTL(s.look("n").TTL, 20*time.Second)
		s.must(s.shorten(on(r, fr), 10*time.Second))
		s.must(s.shorten(on(w, fw), 10*time.Second))
		s.wantTTL(s.look("n").TTL, 10*time.Second)
	}},
	{"OthersKeepTheirPermits", func(s *suite) {
		s.needs(lock.Semaphore)
		a, b := some("a", 2), some("b", 1)
		s.acquire(a)
		s.acquire(b)
		s.must(s.shorten(on(a, 0), 50*time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		s.wantOut(1)
		s.wantTTL(s.look("n").TTL, ttl)
		s.acquire(some("c", 2))
		s.must(s.renew(on(b, 0)))
	}},
	{"ThoseWhoWaitAreTold", func(s *suite) {
		for _, kind := range s.these(lock.Exclusive, lock.Read, lock.Write, lock.Semaphore) {
			c := of(kind, "n-"+kind.String(), "o")
			e, _ := s.listenTo(c.Name, kind)
			g := s.acquire(c)
			s.must(s.shorten(on(c, g.Fence), 10*time.Second))
			e.awaitReleases(1)
		}
	}},
}
