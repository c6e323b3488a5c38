package redlock

import (
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
