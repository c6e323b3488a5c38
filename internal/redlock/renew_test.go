package redlock

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// The caller uses its renewals again at once; each hold is answered once, whatever the members do.
func TestRenewalsOfManyHolds(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"well":         func(*world) {},
		"one far away": func(w *world) { w.nodes[0].lag(700 * time.Millisecond) },
		"one silent":   func(w *world) { w.nodes[0].becomes(silent) },
	} {
		inWorld(t, 3, Config{}, func(w *world) {
			rs := make([]lock.Renewal, 50)
			for i := range rs {
				c := claimOf(fmt.Sprint(i), "o")
				rs[i] = renewalOf(c.Name, "o", w.take(w.Store, c).Fence)
			}
			synctest.Wait()
			fault(w)
			begun := time.Now()
			calls := make([]int, len(rs))
			w.Renew(w.Context(), rs, func(i int, err error) {
				calls[i]++
				if err != nil {
					w.Errorf("%s: %v", name, err)
				}
			})
			clear(rs)
			if took := time.Since(begun); took > 10*time.Millisecond {
				t.Errorf("%s: it took %v", name, took)
			}
			for i, n := range calls {
				if n != 1 {
					t.Errorf("%s: hold %d was answered %d times", name, i, n)
				}
			}
		})
	}
}

// inOrder has the members answer one after the other, from a certain one on.
func (w *world) inOrder(first int, fates map[int]fate) {
	for i, n := range w.nodes {
		f := fates[i]
		f.before = time.Duration(1+(i-first+len(w.nodes))%len(w.nodes)) * time.Millisecond
		n.becomes(f)
	}
}

// Members refuse for different reasons. Who asks is told that the name is held, unless something else alone prevents a
// majority: else a member that is full would have all waits for names that are held elsewhere fail.
func TestAHeldNameIsHeldWhateverAFewMembersSay(t *testing.T) {
	for _, row := range []struct {
		members, hold, refuse int
		held                  bool
	}{
		{3, 2, 1, true},
		{3, 1, 1, true}, // the others contend
		{3, 1, 2, false},
		{5, 4, 1, true},
		{5, 3, 2, true},
		{5, 2, 2, true},
		{5, 2, 3, false},
	} {
		for what, err := range map[string]error{"full": lock.ErrStoreFull, "mismatched": lock.ErrKindMismatch} {
			for first := range row.members {
				name := fmt.Sprintf("%d of %d %s, %d hold, from %d", row.refuse, row.members, what, row.hold, first)
				inWorld(t, row.members, Config{}, func(w *world) {
					fates := map[int]fate{}
					for i := range row.refuse {
						fates[i] = fate{says: err}
					}
					for i := range row.hold {
						w.puts(row.refuse+i, claimOf("n", "holder"))
						w.puts(row.refuse+i, claimOf("m", "holder"))
					}
					w.inOrder(first, fates)
					want := err
					if row.held {
						want = lock.ErrHeld
					}
					if _, err := w.Store.Acquire(w.Context(), claimOf("n", "o")); !errors.Is(err, want) {
						t.Errorf("%s: got %v, want %v", name, err, want)
					}
					both := []lock.Claim{claimOf("m", "o"), claimOf("n", "o")}
					if _, err := w.Store.AcquireAll(w.Context(), both); !errors.Is(err, want) {
						t.Errorf("%s, several names: got %v, want %v", name, err, want)
					}
					synctest.Wait()
				})
			}
		}
	}
}
