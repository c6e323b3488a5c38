package storetest

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"
)

var refusalContract = []contract{
	{"EachCallOfAKindItHasNotGot", func(s *suite) {
		for _, kind := range s.Refuses {
			s.Run(kind.String(), func(t *testing.T) { (&suite{t, s.Rig}).refuses(kind) })
		}
	}},
	{"OtherKindsAreUnsupported", func(s *suite) {
		for _, k := range []lock.Kind{0, lock.Semaphore + 1} {
			c := of(k, "n", "o")
			s.wantErr(errOf(await(s.Context(), s.Store.StartAcquire, c)), lock.ErrUnsupported)
			s.wantErr(errOf(await(s.Context(), s.Store.StartRelease, back(c, 0))), lock.ErrUnsupported)
			s.wantErr(s.renew(on(c, 1)), lock.ErrUnsupported)
			s.wantErr(errOf(s.Store.ForceRelease(s.Context(), "n", k)), lock.ErrUnsupported)
			s.wantErr(errOf(s.Store.AcquireAll(s.Context(), []lock.Claim{claim("m", "o"), c})), lock.ErrUnsupported)
			s.wantFree("m")
			s.wantErr(s.Store.Leave(s.Context(), "n", k, nil), lock.ErrUnsupported)
		}
	}},
	{"ProbeGivesOneIdentity", func(s *suite) {
		a, err := s.Store.Probe(s.Context())
		s.must(err)
		b, err := s.Store.Probe(s.Context())
		s.must(err)
		if a == "" || a != b {
			s.Errorf("got identities %q and %q, want one", a, b)
		}
		s.wantErr(errOf(s.Store.Probe(s.ended())), lock.ErrUnavailable)
	}},
}

// refuses checks that each call with a kind that the Store lacks is refused.
func (s *suite) refuses(kind lock.Kind) {
	ctx, c := s.Context(), of(kind, "n", "o")
	_, acquired := await(ctx, s.Store.StartAcquire, c)
	_, all := s.Store.AcquireAll(ctx, []lock.Claim{claim("m", "o"), c})
	_, released := await(ctx, s.Store.StartRelease, back(c, 0))
	_, raised := s.Store.Raise(ctx, c)
	_, extended := await(ctx, s.Store.StartExtend, on(c, 1))
	var renewed error
	s.Store.Renew(ctx, []lock.Renewal{on(c, 1)}, func(_ int, err error) { renewed = err })
	_, forced := s.Store.ForceRelease(ctx, "n", kind)
	errs := map[string]error{
		"Acquire": acquired, "AcquireAll": all, "Release": released, "Extend": extended, "Renew": renewed,
		"ForceRelease": forced, "Shorten": s.Store.Shorten(ctx, on(c, 1)), "Raise": raised,
	}
	switch kind {
	case lock.Fair:
		_, errs["Enlist"] = s.Store.Enlist(ctx, "n", fulls("o"), ttl)
		_, errs["Succeed"] = s.Store.Succeed(ctx, "n", fulls("o"), Full("p"), ttl)
		errs["Leave"] = s.Store.Leave(ctx, "n", kind, fulls("o"))
		if waiting, err := s.Store.Queue(ctx, "n", 1); err != nil || len(waiting) > 0 {
			s.Errorf("got %q, %v: nobody waits for a fair lock, and that is no error", waiting, err)
		}
	case lock.Semaphore:
		_, errs["SetLimit"] = s.Store.SetLimit(ctx, "n", 1)
		_, errs["RemoveLimit"] = s.Store.RemoveLimit(ctx, "n")
		errs["AdoptLimit"] = s.Store.AdoptLimit(ctx, "n", 1)
	default:
	}
	for call, err := range errs {
		s.Log(call, err)
		s.wantErr(err, lock.ErrKindUnsupported)
	}
	s.wantFree("m")
	s.wantFree("n")
}
