package storetest

import (
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

var allKinds = lock.Kinds()

// kindsContract is that a name used with several kinds, which nobody should do, does no harm.
var kindsContract = []contract{
	{"NoKindIsGrantedBesideAnother", func(s *suite) {
		for _, a := range s.these() {
			for _, b := range s.these() {
				name := fmt.Sprint(a, "-", b)
				c, other := of(a, name, "o"), of(b, name, "other")
				s.acquire(c)
				g, err := await(s.Context(), s.Store.StartAcquire, other)
				switch {
				case a == lock.Read && b == lock.Read:
					s.must(err)
					continue
				case (a == lock.Semaphore) == (b == lock.Semaphore):
					s.wantErr(err, lock.ErrHeld)
				default:
					s.wantErr(err, lock.ErrKindMismatch)
				}
				if g.Fence != 0 {
					s.Errorf("%s: got fence %d", name, g.Fence)
				}
				s.wantState(heldAs(c))
			}
		}
	}},
	{"NoKindReleasesAnother", func(s *suite) {
		for _, a := range s.these() {
			for _, b := range s.these() {
				if a == b || max(a, b) == lock.Fair { // a fair hold is an exclusive one
					continue
				}
				name := fmt.Sprint(a, "-", b)
				c, other := of(a, name, "o"), of(b, name, "o")
				f := s.acquire(c).Fence
				_, err := await(s.Context(), s.Store.StartRelease, back(other, f))
				if (a == lock.Semaphore) == (b == lock.Semaphore) {
					s.wantErr(err, lock.ErrNotHeld)
				} else {
					s.wantErr(err, lock.ErrKindMismatch)
				}
				if held, err := s.Store.ForceRelease(s.Context(), name, b); held {
					s.Errorf("%s: it says that it freed the name (%v)", name, err)
				}
				s.wantState(heldAs(c))
			}
		}
	}},
}

// all claims several names by AcquireAll, and must get them.
func (s *suite) all(cs ...lock.Claim) []lock.Fence {
	s.Helper()
	gs, err := s.Store.AcquireAll(s.Context(), cs)
	if err != nil {
		s.Fatalf("acquire %+v: %v", cs, err)
	}
	if len(gs) != len(cs) {
		s.Fatalf("got %d grants for %d claims", len(gs), len(cs))
	}
	fences := make([]lock.Fence, len(gs))
	for i, g := range gs {
		if fences[i] = g.Fence; g.Fence == 0 || g.TTL < cs[i].TTL {
			s.Errorf("got %+v for %+v", g, cs[i])
		}
	}
	return fences
}

var allContract = []contract{
	{"AllAreTaken", func(s *suite) {
		var cs []lock.Claim
		for _, kind := range s.these() {
			cs = append(cs, of(kind, kind.String(), "o"))
		}
		first := s.all(cs...)
		for _, c := range cs {
			s.wantState(heldAs(c))
		}
		for i, f := range s.all(cs...) { // repeated
			if kind := cs[i].Kind; kind == lock.Semaphore && f <= first[i] || kind != lock.Semaphore && f != first[i] {
				s.Errorf("%v repeated: got fence %d after %d", kind, f, first[i])
			}
			s.wantState(heldAs(cs[i]))
		}
		for i, c := range cs {
			r := back(c, first[i])
			if c.Kind == lock.Semaphore {
				r.Fence = 0
			}
			s.release(r)
		}
	}},
	{"OrNone", func(s *suite) {
		for _, kind := range s.these() {
			for at := range 3 {
				name := func(i int) string { return fmt.Sprint(kind, at, i) }
				s.acquire(of(kind, name(at), "other"))
				var cs []lock.Claim
				for i := range 3 {
					cs = append(cs, against(kind, name(i), "o"))
				}
				_, err := s.Store.AcquireAll(s.Context(), cs)
				held, ok := errors.AsType[*lock.HeldError](err)
				if !ok {
					s.Fatalf("got %v, want a HeldError", err)
				}
				s.wantTTL(held.RetryAfter, ttl)
				if want := heldAs(of(kind, "", "other")).Owner; held.Name != name(at) || held.HeldBy != want {
					s.Errorf("got %+v, want %q held by %q", held, name(at), want)
				}
				for i := range 3 {
					if i != at && s.Apart {
						s.wantFree(name(i))
					} else if i != at {
						s.wantState(lock.State{Name: name(i)})
					}
				}
			}
		}
	}},
	{"TheFirstInTheWayIsNamed", func(s *suite) {
		for _, name := range []string{"b", "c"} {
			s.acquire(claim(name, "other"))
		}
		_, err := s.Store.AcquireAll(s.Context(), []lock.Claim{claim("a", "o"), claim("c", "o"), claim("b", "o")})
		if held, ok := errors.AsType[*lock.HeldError](err); !ok || held.Name != "c" && (!s.Apart || held.Name != "b") {
			s.Errorf("got %v, want c to be named", err)
		}
	}},
	{"TheTurnOfFairWaitersIsKept", func(s *suite) {
		s.needs(lock.Fair)
		s.enlist([]lock.Owner{"a"}, 0)
		_, err := s.Store.AcquireAll(s.Context(), []lock.Claim{claim("m", "o"), of(lock.Fair, "n", "o")})
		if held, ok := errors.AsType[*lock.HeldError](err); !ok || held.Name != "n" || held.HeldBy != Full("a") {
			s.Errorf("got %v, want a to be before it", err)
		}
		s.wantFree("m")
		s.all(claim("m", "a"), of(lock.Fair, "n", "a"))
		s.wantQueue()
	}},
	{"AWriterThatWaitsKeepsReadersAway", func(s *suite) {
		s.acquire(reads("a"))
		s.refused(wishes("w"))
		_, err := s.Store.AcquireAll(s.Context(), []lock.Claim{claim("m", "o"), reads("b")})
		if held, ok := errors.AsType[*lock.HeldError](err); !ok || held.Name != "n" || held.HeldBy != Full("w") {
			s.Errorf("got %v, want w to be before it", err)
		}
		s.wantFree("m")
	}},
	{"AnyRefusalTakesNothing", func(s *suite) {
		s.needs(lock.Semaphore)
		s.acquire(some("other", 1))
		s.must(s.Hooks.Occupy("x"))
		limit := some("o", 1)
		limit.Limit = 9
		for want, c := range map[error]lock.Claim{
			lock.ErrLimitMismatch: limit,
			lock.ErrInvalid:       some("o", 4),
			lock.ErrKindMismatch:  claim("x", "o"),
		} {
			s.wantErr(errOf(s.Store.AcquireAll(s.Context(), []lock.Claim{claim("m", "o"), c, claim("k", "o")})), want)
			s.wantFree("m")
			s.wantFree("k")
		}
		s.wantOut(1)
	}},
	{"AReadBesideIsGrantedAmongOthers", func(s *suite) {
		s.acquire(writes("w"))
		s.all(claim("m", "r"), readsToo("r", "w"))
		want := heldAs(writes("w"))
		want.Holders = 1
		s.wantState(want)
	}},
	{"ManyAtOnce", func(s *suite) {
		var cs []lock.Claim
		for i := range 64 {
			cs = append(cs, of(s.these()[i%len(s.these())], fmt.Sprint("n", i), "o"))
		}
		s.all(cs...)
		s.release(back(cs[0], 0))
		for i := range cs {
			cs[i] = against(cs[i].Kind, cs[i].Name, "other")
		}
		_, err := s.Store.AcquireAll(s.Context(), cs)
		if held, ok := errors.AsType[*lock.HeldError](err); !ok || held.Name != "n1" && !s.Apart {
			s.Errorf("got %v, want n1 to be named", err)
		}
		s.wantFree("n0")
	}},
}
