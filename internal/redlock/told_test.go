package redlock

import (
	"testing"
	"testing/synctest"

	"github.com/lockd-io/lockd/internal/lock"
)

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
