package redlock

import (
	"context"
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
