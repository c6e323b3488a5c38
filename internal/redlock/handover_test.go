package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

// toSuccessor is a release of "n" that hands it over for ten seconds.
func toSuccessor(o lock.Owner, f lock.Fence, successor lock.Owner) lock.Return {
	r := returnOf("n", o, f)
	r.Next = &lock.Successor{Owner: successor, TTL: 10 * time.Second}
	return r
}

// pass makes a hand-over that must succeed.
func (w *world) pass(s *Store, r lock.Return) lock.Fence {
	w.Helper()
	res, err := s.Release(w.Context(), r)
	if err != nil || res.HandedOver == 0 {
		w.Fatalf("hand over %+v: %+v, %v", r, res, err)
	}
	return res.HandedOver
}

func TestANameIsHandedOverInOneRound(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Write} {
		inWorld(t, 3, Config{}, func(w *world) {
			c := claimOf("n", "o")
			c.Kind = kind
			last := w.take(w.Store, c).Fence
			synctest.Wait()
			for _, n := range w.nodes {
				n.lag(10 * time.Millisecond)
			}
			for i := range 50 {
				r := toSuccessor(c.Owner, last, lock.Owner(fmt.Sprint("successor", i)))
				r.Kind, c.Owner = kind, r.Next.Owner
				begun := time.Now()
				f := w.pass(w.Store, r)
				if took := time.Since(begun); took != 10*time.Millisecond {
					t.Fatalf("%v: it took %v, want one round", kind, took)
				}
				if f <= last {
					t.Fatalf("%v: fence %d after %d", kind, f, last)
				}
				last = f
			}
			synctest.Wait()
			w.wantHolders("n", "successor49", "successor49", "successor49")
			for i, n := range w.nodes {
				if a, r := n.called("acquire"), n.called("release"); a != 1 || r != 50 {
					t.Errorf("%v: member %d was asked to acquire it %d times, and to release it %d times", kind, i, a, r)
				}
			}
			if n := w.Store.late.waiting(); n != 0 {
				t.Errorf("%d calls are remembered", n)
			}
		})
	}
}

// What only a minority handed over is nobody's: the name is freed everywhere. The hold had been lost, and that is what
// is told, whoever answers first.
func TestAHandOverOfAMinorityFreesTheName(t *testing.T) {
	for _, lostAreQuicker := range []bool{false, true} {
		inWorld(t, 5, Config{}, func(w *world) {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			synctest.Wait()
			lost, kept := w.nodes[:3], w.nodes[3:]
			for _, n := range lost {
				n.Expire("n")
			}
			slow := lost
			if lostAreQuicker {
				slow = kept
			}
			for _, n := range slow {
				n.lag(time.Millisecond)
			}
			res, err := w.Store.Release(w.Context(), toSuccessor("o", f, "successor"))
			if !errors.Is(err, lock.ErrNotHeld) || res.HandedOver != 0 {
				t.Fatalf("got %+v, %v, want that it is not held", res, err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			w.wantHolders("n", "", "", "", "", "")
			if g := w.take(w.Store, claimOf("n", "successor")); g.Fence <= f {
				t.Errorf("fence %d after %d", g.Fence, f)
			}
		})
	}
}

// If the others surely did nothing, the outcome is unknown, and nobody has what the minority gave. It can be repeated.
func TestAHandOverThatMostMembersDidNotHear(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		for _, n := range w.nodes[1:] {
			n.choose(once("release", down))
		}
		res, err := w.Store.Release(w.Context(), toSuccessor("o", f, "successor"))
		if !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Fatalf("got %+v, %v, want an unknown outcome", res, err)
		}
		synctest.Wait()
		w.wantHolders("n", "", "o", "o")
		w.pass(w.Store, toSuccessor("o", f, "successor"))
		synctest.Wait()
		w.wantHolders("n", "successor", "successor", "successor") // the first one had nothing to hand over
	})
}

// Where a majority may have done it, nothing is touched. To repeat it gives the fence that they have.
func TestAHandOverThatIsNotAnsweredIsRepeated(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[1].choose(onceNoReply("release"))
		w.nodes[2].choose(once("release", silent))
		res, err := w.Store.Release(w.Context(), toSuccessor("o", f, "successor"))
		if !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Fatalf("got %+v, %v, want an unknown outcome", res, err)
		}
		w.wantHolders("n", "successor", "successor", "o")
		st, _ := w.nodes[0].Store.Look(w.Context(), "n")
		w.nodes[2].becomes(silent)
		if got := w.pass(w.Store, toSuccessor("o", f, "successor")); got != st.Fence {
			t.Errorf("repeated: got %d, want %d", got, st.Fence)
		}
	})
}

// A member that hands over when others have had the name since does no harm: it frees what it has when it has answered,
// or when it was not heard of for so long that it is asked again.
func TestALateHandOverHarmsNobody(t *testing.T) {
	for _, late := range []time.Duration{300 * time.Millisecond, 3 * time.Second} {
		inWorld(t, 3, Config{}, func(w *world) {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			synctest.Wait()
			w.nodes[2].choose(once("release", fate{before: late}))
			successor := w.pass(w.Store, toSuccessor("o", f, "successor"))
			w.give(w.Store, returnOf("n", "successor", successor))
			next := w.take(w.Store, claimOf("n", "next")).Fence
			if successor <= f || next <= successor {
				t.Errorf("fences %d, %d, %d", f, successor, next)
			}
			time.Sleep(5 * time.Second)
			w.wantHolders("n", "next", "next", "")
			w.give(w.Store, returnOf("n", "next", next))
			synctest.Wait()
			w.wantHolders("n", "", "", "")
		})
	}
}

// The successor may have something at a member from an earlier attempt, and what that has ends soon or is being
// released. It counts only when it lasts as long as what is told, and with a fence that nobody releases.
func TestWhatTheSuccessorHadBeforeDoesNotCountAsItIs(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		c := claimOf("n", "successor")
		c.TTL = time.Second
		w.puts(0, c)
		early, _ := w.nodes[0].Store.Look(w.Context(), "n")
		f := w.take(w.Store, claimOf("n", "o")).Fence // of the two others
		synctest.Wait()
		w.nodes[1].becomes(down)
		got := w.pass(w.Store, toSuccessor("o", f, "successor"))
		synctest.Wait()
		for _, i := range []int{0, 2} {
			st, _ := w.nodes[i].Store.Look(w.Context(), "n")
			if st.Owner != "successor" || st.Fence != got || st.TTL < 10*time.Second {
				t.Errorf("member %d has %+v, want fence %d for 10 s", i, st, got)
			}
		}
		if got <= early.Fence || got <= f {
			t.Errorf("fence %d after %d and %d", got, early.Fence, f)
		}
	})
}

// A replica whose clock is behind learns the fences with its hand-over, and they rise.
func TestTheFenceOfAHandOverIsRaised(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		ahead, behind := w.another(Config{}), w.another(Config{})
		ahead.hours(5)
		f := w.take(ahead, claimOf("n", "o")).Fence
		synctest.Wait()
		got := w.pass(behind, toSuccessor("o", f, "successor"))
		if got <= f {
			t.Errorf("fence %d after %d", got, f)
		}
		synctest.Wait()
		if err := w.renew(renewalOf("n", "successor", got)); err != nil {
			t.Error(err)
		}
		for i, n := range w.nodes {
			if st, _ := n.Store.Look(w.Context(), "n"); st.Fence != got {
				t.Errorf("member %d has fence %d, want %d", i, st.Fence, got)
			}
		}
	})
}

func TestAHandOverThatComesTooLateIsNotTold(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		for _, n := range w.nodes {
			n.lag(20 * time.Millisecond)
		}
		r := toSuccessor("o", f, "successor")
		r.Next.TTL = 15 * time.Millisecond
		if res, err := w.Store.Release(w.Context(), r); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %+v, %v, want an unknown outcome", res, err)
		}
	})
}

// The name may have been freed by force at members that had handed it over.
func TestAHandOverThatMeetsAForcedReleaseIsNotTrusted(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		for _, n := range w.nodes {
			n.lag(20 * time.Millisecond)
		}
		time.AfterFunc(5*time.Millisecond, func() { w.Store.isForced("n") })
		res, err := w.Store.Release(w.Context(), toSuccessor("o", f, "successor"))
		if !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %+v, %v, want an unknown outcome", res, err)
		}
	})
}

// A member that may have lost its data has no vote.
func TestAQuarantinedMemberHandsNothingOver(t *testing.T) {
	inWorld(t, 3, Config{Quarantine: time.Minute}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[0].restart()
		c := claimOf("n", "o")
		c.Fence = f
		w.puts(0, c) // put back
		w.nodes[1].choose(once("release", down))
		if res, err := w.Store.Release(w.Context(), toSuccessor("o", f, "successor")); err == nil && res.HandedOver != 0 {
			t.Errorf("got %+v: one member has a vote and did it", res)
		}
	})
}

// A member that had no hold is given that of the successor, so that a majority does not become a bare one for good.
func TestAMemberWithoutTheHoldIsGivenIt(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[2].Expire("n")
		f = w.pass(w.Store, toSuccessor("o", f, "successor"))
		synctest.Wait()
		w.wantHolders("n", "successor", "successor", "successor")
		w.nodes[0].becomes(down)
		w.pass(w.Store, toSuccessor("successor", f, "next"))
		synctest.Wait()
		w.wantHolders("n", "successor", "next", "next")
	})
}

// Hand-overs do not wait for a member that is silent, and what is left for it to do does not become a chain.
func TestASilentMemberHoldsNoHandOverUp(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		o := lock.Owner("o")
		f := w.take(w.Store, claimOf("n", o)).Fence
		synctest.Wait()
		w.nodes[2].becomes(silent)
		begun := time.Now()
		for i := range 1000 {
			next := lock.Owner(fmt.Sprint("successor", i))
			f = w.pass(w.Store, toSuccessor(o, f, next))
			o = next
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begun); took > 1100*time.Millisecond {
			t.Errorf("a thousand took %v", took)
		}
		time.Sleep(2 * patience)
		if n := w.Store.late.waiting(); n != 0 {
			t.Errorf("%d calls wait for the member after %v", n, 2*patience)
		}
		w.nodes[2].becomes(fate{})
		w.pass(w.Store, toSuccessor(o, f, "last"))
		time.Sleep(11 * time.Second)
		w.wantHolders("n", "", "", "") // its lease is over, and the silent one has none of the others
	})
}

// inline is a member that answers before the next one is asked.
type inline struct{ *memstore.Store }

func (p inline) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	done(p.Acquire(context.Background(), c))
}

func (p inline) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	done(p.Release(context.Background(), r))
}

// All members are asked, also if a majority has answered before the last one is: it would else be left with the hold of
// the owner, and the successor with a bare majority.
func TestAHandOverAsksAllMembersHoweverQuickOthersAre(t *testing.T) {
	stores := []*memstore.Store{memstore.New(), memstore.New(), memstore.New()}
	var all []lock.Store
	for _, m := range stores {
		all = append(all, inline{m})
	}
	s, err := New(Config{}, all, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	g, err := s.Acquire(t.Context(), lock.Claim{Name: "n", Kind: lock.Exclusive, Owner: "a", Count: 1, TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r := lock.Return{Name: "n", Kind: lock.Exclusive, Owner: "a", Fence: g.Fence}
	r.Next = &lock.Successor{Owner: "b", TTL: time.Minute}
	if res, err := s.Release(t.Context(), r); err != nil || res.HandedOver == 0 {
		t.Fatalf("got %+v, %v, want it handed over", res, err)
	}
	for i, m := range stores {
		if st, err := m.Look(t.Context(), "n"); err != nil || st.Owner != "b" {
			t.Errorf("member %d has %+v, %v, want the successor", i, st, err)
		}
	}
}
