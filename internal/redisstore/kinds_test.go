package redisstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/renew"
)

var kinds = lock.Kinds()

// usual is a claim of a kind with what that needs.
func usual(kind lock.Kind, name string, o lock.Owner) lock.Claim {
	c := kindClaim(kind, name, o)
	switch kind {
	case lock.Semaphore:
		c.Permits, c.Limit = 1, 2
	case lock.Fair, lock.Write:
		c.Place = place
	default:
	}
	return c
}

func renewal(c lock.Claim, f lock.Fence) lock.Renewal {
	return lock.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: f, TTL: lease, Permits: c.Permits}
}

// The budget, for each kind: what nobody contends for costs one script, and a chunk of renewals of all kinds too.
func TestUncontendedOperationsOfEachKindAreOneScriptEach(t *testing.T) {
	srv, s, _ := begin(t)
	count := func(what string, do func()) {
		t.Helper()
		before := srv.ScriptCalls()
		do()
		if n := srv.ScriptCalls() - before; n != 1 {
			t.Errorf("%s was %d scripts, want 1", what, n)
		}
	}
	var rs []lock.Renewal
	for _, kind := range kinds {
		c := usual(kind, "warm "+kind.String(), "o")
		release(t, s, kindReturn(kind, c.Name, "o", acquire(t, s, c).Fence))
		c.Name = kind.String()
		var f lock.Fence
		count("an acquisition of "+c.Name, func() { f = acquire(t, s, c).Fence })
		count("a release of "+c.Name, func() { release(t, s, kindReturn(kind, c.Name, "o", f)) })
		rs = append(rs, renewal(c, acquire(t, s, c).Fence))
	}
	for full := false; !full; {
		more := append(slices.Clip(rs), rs[len(rs)%len(kinds)])
		if full = len(renew.ByCost(more, indexes(more))) > 1; !full {
			rs = more
		}
	}
	s.Renew(t.Context(), rs[:1], func(int, error) {}) // loads the script
	count("a chunk of renewals", func() {
		s.Renew(t.Context(), rs, func(i int, err error) {
			if err != nil {
				t.Errorf("renewal %d of %v: %v", i, rs[i].Kind, err)
			}
		})
	})
}

// indexes are those of all.
func indexes(rs []lock.Renewal) (all []int) {
	for i := range rs {
		all = append(all, i)
	}
	return all
}

func TestFullRedisKeepsHoldsOfEachKind(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.String(), func(t *testing.T) {
			_, s, c := begin(t)
			held := usual(kind, "n", "o")
			f := acquire(t, s, held).Fence
			other := usual(kind, "busy", "o")
			acquire(t, s, other)
			if kind == lock.Fair {
				_ = refused(t, s, usual(kind, "busy", "w"))
				acquire(t, s, usual(kind, "moves", "o"))
			}
			must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())

			wantErr(t, attempt(t, s, usual(kind, "m", "o")), lock.ErrStoreFull)
			if st, err := s.Look(t.Context(), "m"); err != nil || st.Held || st.Kind != 0 {
				t.Errorf("the refused name is %+v, %v, want nothing there", st, err)
			}
			again := acquire(t, s, held)
			if again.Fence != f && kind != lock.Semaphore {
				t.Errorf("the repetition got fence %d, want %d", again.Fence, f)
			}
			r := renewal(held, again.Fence)
			r.TTL = 2 * lease
			wantErr(t, renewing(t, s, r), nil)
			if st, err := s.Look(t.Context(), "n"); err != nil || st.TTL <= lease {
				t.Errorf("got %+v, %v, want it renewed", st, err)
			}
			if kind == lock.Fair {
				got, err := s.Enlist(t.Context(), "busy", wholes("w"), place)
				if err != nil || got[0] != lock.PlaceUnknown {
					t.Errorf("got %v, %v, want the place kept", got, err)
				}
				back := kindReturn(kind, "moves", "o", 0)
				back.Place = place
				if res := release(t, s, back); res.Turn != whole("o") {
					t.Errorf("got %+v, want it to be the turn of who had it", res)
				}
			}
			over := kindReturn(kind, "n", "o", again.Fence)
			if !kind.Shared() {
				over.Next = &lock.Successor{Owner: whole("successor"), TTL: lease}
			}
			if res := release(t, s, over); res.HandedOver != 0 {
				release(t, s, kindReturn(kind, "n", "successor", res.HandedOver))
			} else if !kind.Shared() {
				t.Error("it was not handed over")
			}
			wantHeld(t, s, "n", false)
			if ok, err := s.ForceRelease(t.Context(), "busy", kind); err != nil || !ok {
				t.Errorf("got %v, %v, want it freed", ok, err)
			}
		})
	}
}

// Whatever script Redis has forgotten, the call for it has the answer that it has otherwise.
func TestForgottenScriptsOfEachKindAreSentAgain(t *testing.T) {
	_, s, c := begin(t)
	for _, call := range misfitCalls() {
		var answers [2]error
		for i := range answers {
			must(t, c.FlushAll(t.Context()).Err())
			if call.before != nil {
				call.before(t, s)
			}
			if i > 0 {
				must(t, c.ScriptFlush(t.Context()).Err())
			}
			answers[i] = call.call(t, s)
		}
		if errors.Is(answers[1], lock.ErrUnavailable) || (answers[0] == nil) != (answers[1] == nil) {
			t.Errorf("%s: got %v, want %v", call.name, answers[1], answers[0])
		}
	}
}

func TestAFullRedisGrantsNoneOfSeveral(t *testing.T) {
	srv, s, _ := begin(t)
	var cs []lock.Claim
	for _, kind := range kinds {
		c := usual(kind, kind.String(), "o")
		c.Place = 0
		cs = append(cs, c)
	}
	must(t, srv.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := s.AcquireAll(t.Context(), cs)
	wantErr(t, err, lock.ErrStoreFull)
	must(t, srv.Client().ConfigSet(t.Context(), "maxmemory", "0").Err())
	for _, c := range cs {
		wantHeld(t, s, c.Name, false)
	}
	before := srv.ScriptCalls()
	_, err = s.AcquireAll(t.Context(), cs)
	wantErr(t, err, nil)
	if n := srv.ScriptCalls() - before; n != 1 {
		t.Errorf("it was %d scripts, want 1", n)
	}
}

// A forced release that comes too late does nothing: somebody else may have the name by then.
func TestAForcedReleaseIsNeverLate(t *testing.T) {
	_, s, _ := begin(t)
	for _, kind := range kinds {
		c := usual(kind, "n "+kind.String(), "o")
		acquire(t, s, c)
		late := time.Now().Add(-time.Second).UnixMilli()
		if _, err := s.forceRelease(t.Context(), c.Name, kind, late); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("%v: too late: got %v, want that nothing was done", kind, err)
		}
		if held, err := s.ForceRelease(t.Context(), c.Name, kind); err != nil || !held {
			t.Errorf("%v: in time: got %v, %v", kind, held, err)
		}
	}
}
