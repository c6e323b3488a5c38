package storetest

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// claim is an acquisition with the usual lease.
func claim(name string, o lock.Owner) lock.Claim {
	return lock.Claim{Name: name, Kind: lock.Exclusive, Owner: Full(o), TTL: ttl}
}

// of is an acquisition of a kind with the usual lease; of a semaphore it takes all permits.
func of(kind lock.Kind, name string, o lock.Owner) lock.Claim {
	c := claim(name, o)
	c.Kind = kind
	if kind == lock.Semaphore {
		c.Permits, c.Limit = 2, 2
	}
	return c
}

// against is a claim that is refused beside another owner's hold of a kind.
func against(kind lock.Kind, name string, o lock.Owner) lock.Claim {
	if kind == lock.Read {
		kind = lock.Write
	}
	return of(kind, name, o)
}

// back is a complete release of a claim that was granted.
func back(c lock.Claim, f lock.Fence) lock.Return {
	return lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: f, Permits: c.Permits}
}

// on is a renewal of the hold of a claim, with the usual lease.
func on(c lock.Claim, f lock.Fence) lock.Renewal {
	return lock.Renewal{
		Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: f, TTL: ttl, Permits: c.Permits, Seen: seen(f),
	}
}

// seen is when a fence was given out, as fences count microseconds; zero for a fence that never was.
func seen(f lock.Fence) time.Time {
	if f < 1e12 { // it was never given out
		return time.Time{}
	}
	return time.UnixMicro(int64(f)) //nolint:gosec // far from 2^63
}

// over is a release that hands the name over to another owner, with the usual lease.
func over(r lock.Return, to lock.Owner) lock.Return {
	r.Next = &lock.Successor{Owner: Full(to), TTL: ttl}
	return r
}

// refused makes an acquisition that must be refused with a HeldError, and returns that.
func (s *suite) refused(c lock.Claim) lock.HeldError {
	s.Helper()
	_, err := await(s.Context(), s.Store.StartAcquire, c)
	held, ok := errors.AsType[*lock.HeldError](err)
	if !ok {
		s.Fatalf("acquire %+v: got %v, want a HeldError", c, err)
	}
	return *held
}

// refusedBy is refused, where by must be in the way and ahead the number of waiters before the claim.
func (s *suite) refusedBy(by lock.Owner, ahead int, c lock.Claim) lock.HeldError {
	s.Helper()
	held := s.refused(c)
	if held.HeldBy != Full(by) || held.Ahead != ahead {
		s.Errorf("%+v is refused with %+v, want %q to be in its way, and %d ahead", c, held, by, ahead)
	}
	return held
}

// notHeld makes a release that must fail with ErrNotHeld.
func (s *suite) notHeld(r lock.Return) {
	s.Helper()
	s.wantErr(errOf(await(s.Context(), s.Store.StartRelease, r)), lock.ErrNotHeld)
}

// wantState checks what Look says. It ignores the fence, and compares the TTL by wantTTL.
func (s *suite) wantState(want lock.State) {
	s.Helper()
	got := s.look(want.Name)
	s.wantTTL(got.TTL, want.TTL)
	got.TTL, got.Fence, want.TTL = 0, 0, 0
	if !got.Held && got.Kind == lock.Read {
		got.Kind = 0 // nobody reads any more
	}
	if got != want {
		s.Errorf("got  %+v, want %+v", got, want)
	}
}

func (s *suite) wantFree(name string) {
	s.Helper()
	if st := s.look(name); st.Held || st.Owner != "" || st.Count != 0 || st.Holders != 0 || st.TTL != 0 {
		s.Errorf("got %+v, want it free", st)
	}
}

// heldAs is what Look says of a claim that was granted.
func heldAs(c lock.Claim) lock.State {
	st := lock.State{Name: c.Name, Kind: c.Kind, Held: true, Owner: c.Owner, Count: 1, Holders: 1, TTL: c.TTL}
	switch c.Kind {
	case lock.Fair:
		st.Kind = lock.Exclusive
	case lock.Semaphore:
		st.Owner, st.Count, st.Holders, st.Limit = "", 0, c.Permits, c.Limit
	default:
	}
	return st
}

func (s *suite) force(name string, kind lock.Kind) bool {
	s.Helper()
	held, err := s.Store.ForceRelease(s.Context(), name, kind)
	if err != nil {
		s.Fatalf("force release %q: %v", name, err)
	}
	return held
}

func (s *suite) expireHold(name string, o lock.Owner) {
	s.Helper()
	s.must(s.Hooks.ExpireHold(name, Full(o)))
}

func (s *suite) expirePlace(name string, o lock.Owner) {
	s.Helper()
	s.must(s.Hooks.ExpirePlace(name, Full(o)))
}
