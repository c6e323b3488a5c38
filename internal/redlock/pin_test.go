package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// claimAs is a claim of "n" as some kind.
func claimAs(k lock.Kind, o lock.Owner) lock.Claim {
	c := claimOf("n", o)
	c.Kind = k
	return c
}

// rival is the kind that excludes another one.
func rival(k lock.Kind) lock.Kind {
	if k == lock.Read {
		return lock.Write
	}
	return k
}

// As TestARenewalDoesNotCountOnWhatIsBeingGivenBack, for a unary lease, whose callers know no fence. One member does
// not hear of the extension, and is there again before and after.
func TestAUnaryLeaseIsNotProlongedByWhatIsBeingGivenBack(t *testing.T) {
	const caller = lock.Owner("x:unary")
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Write, lock.Read} {
		for what, extend := range map[string]func(w *world, r lock.Renewal) error{
			"extended": func(w *world, r lock.Renewal) error {
				_, err := w.Store.Extend(w.Context(), r)
				return err
			},
			"shortened": func(w *world, r lock.Renewal) error { return w.Store.Shorten(w.Context(), r) },
		} {
			inWorld(t, 3, Config{}, func(w *world) {
				f := w.take(w.Store, claimAs(rival(kind), "o")).Fence
				synctest.Wait()
				w.nodes[0].Expire("n")
				w.nodes[0].choose(once("release", silent)) // so it is asked again to give back what it takes now
				if _, err := w.Store.Acquire(w.Context(), claimAs(kind, caller)); !errors.Is(err, lock.ErrHeld) {
					t.Fatal(err)
				}
				w.nodes[0].becomes(down)
				first := returnOf("n", "o", f)
				first.Kind = rival(kind)
				w.give(w.Store, first)
				w.take(w.Store, claimAs(kind, caller))
				time.Sleep(5 * time.Second) // by now it is asked seldom
				w.nodes[0].becomes(fate{})
				w.nodes[2].choose(func(op string) fate {
					if op == "extend" || op == "shorten" {
						return down
					}
					return fate{}
				})
				r := renewalOf("n", caller, 0)
				r.Kind = kind
				err := extend(w, r)
				time.Sleep(9 * time.Second)
				_, other := w.another(Config{}).Acquire(w.Context(), claimAs(rival(kind), "other"))
				if err == nil && other == nil {
					t.Errorf("%v, %s: somebody else has it, and it lasts for another second", kind, what)
				}
			})
		}
	}
}

// Members that have it with different fences prolong it, once a majority has the same one. The others are not needed.
func TestAUnaryLeaseIsProlongedByMembersThatDiffer(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Write, lock.Read} {
		inWorld(t, 3, Config{}, func(w *world) {
			for i := range 2 {
				c := claimAs(kind, "x:unary")
				c.Fence = lock.Fence(i + 1)
				w.puts(i, c)
			}
			w.nodes[2].becomes(down)
			time.Sleep(5 * time.Second)
			r := renewalOf("n", "x:unary", 0)
			r.Kind = kind
			if left, err := w.Store.Extend(w.Context(), r); err != nil || left < 10*time.Second {
				t.Errorf("%v: it lasts for %v, %v", kind, left, err)
			}
			for _, n := range w.nodes[:2] {
				if _, err := n.Store.Release(w.Context(), lock.Return{
					Name: "n", Kind: kind, Owner: "x:unary", Fence: 1,
				}); !errors.Is(err, lock.ErrStale) {
					t.Errorf("%v: a release of an attempt that failed gets %v", kind, err)
				}
			}
		})
	}
}

// A fence that all members have stays: whoever asks how long the lease lasts is told the one it was granted with.
func TestAFenceThatAMajorityHasIsNotRaised(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "x:unary")).Fence
		synctest.Wait()
		w.nodes[1].becomes(down)
		if _, err := w.Store.Extend(w.Context(), renewalOf("n", "x:unary", 0)); err != nil {
			t.Error(err)
		}
		if st, err := w.Store.Look(w.Context(), "n"); err != nil || st.Fence != f {
			t.Errorf("got %+v, %v, want fence %d", st, err, f)
		}
	})
}
