package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// The fence of a lease is the one that its caller was told, whatever is done with it by its id alone.
func TestAUnaryLeaseKeepsTheFenceThatWasTold(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Read, lock.Write} {
		for name, fault := range map[string]func(w *world){
			"all are well":                     func(*world) {},
			"a member that was away is back":   func(w *world) { w.nodes[0].becomes(fate{}) },
			"two members that were away are":   func(w *world) { w.nodes[0].becomes(fate{}); w.nodes[1].becomes(fate{}) },
			"and those that have it are later": func(w *world) { w.laterBy(50 * time.Millisecond) },
		} {
			inWorld(t, 5, Config{}, func(w *world) {
				w.nodes[0].becomes(down)
				w.nodes[1].becomes(down)
				c := claimOf("n", unary)
				c.Kind = kind
				f := w.take(w.Store, c).Fence
				synctest.Wait()
				time.Sleep(time.Second)
				fault(w)
				if g := w.take(w.another(Config{}), c); g.Fence != f {
					t.Errorf("%v, %s: repeated: got fence %d, want %d", kind, name, g.Fence, f)
				}
				synctest.Wait()
				r := renewalOf("n", unary, 0)
				r.Kind = kind
				if _, err := w.Store.Extend(w.Context(), r); err != nil {
					t.Errorf("%v, %s: extend: %v", kind, name, err)
				}
				if got, err := w.Store.Raise(w.Context(), c); err != nil || got != f {
					t.Errorf("%v, %s: extended: got fence %d, %v, want %d", kind, name, got, err, f)
				}
			})
		}
	}
}

// laterBy has members that were away be back, and the others answer later than they do.
func (w *world) laterBy(d time.Duration) {
	for i, n := range w.nodes {
		n.becomes(fate{})
		if i > 1 {
			n.lag(d)
		}
	}
}

// Watchers hear of the end of an extended read hold with the fence that its caller was told.
func TestTheEndOfAnExtendedReadHoldHasItsFence(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		var ends []lock.Fence
		stop := w.Watch("n", func(n lock.Notice) {
			if n.What == lock.NoticeEnded && !n.Unsure {
				ends = append(ends, n.Fence)
			}
		})
		defer stop()
		synctest.Wait()
		c := claimOf("n", unary)
		c.Kind = lock.Read
		f := w.take(w.Store, c).Fence
		synctest.Wait()
		r := renewalOf("n", unary, 0)
		r.Kind = lock.Read
		if _, err := w.Store.Extend(w.Context(), r); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.give(w.Store, lock.Return{Name: "n", Kind: lock.Read, Owner: unary})
		synctest.Wait()
		if len(ends) != 1 || ends[0] != f {
			t.Errorf("got ends with fences %d, want %d", ends, f)
		}
	})
}
