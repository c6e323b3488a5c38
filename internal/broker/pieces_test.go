package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
)

// TestManyFairWaitersKeepTheirPlacesAndOrder lets more of them wait than are kept at a time.
func TestManyFairWaitersKeepTheirPlacesAndOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.replica().alive()
		holder.takeKind("job", lock.Fair)
		const n = 1700
		c := w.alive()
		for i := range n {
			c.Acquire(uint64(i+1), request.Acquire{Name: "job", Kind: lock.Fair})
		}
		order := func() (owners []lock.Owner) {
			in, err := w.b.Inspect(w.t.Context(), "job", 1, 2*n)
			must(t, err)
			for _, i := range in.Waiters {
				owners = append(owners, i.Owner)
			}
			return owners
		}
		time.Sleep(10 * time.Second)
		before := order()
		time.Sleep(30 * time.Second)
		after := order()
		if len(before) != n || len(after) != n {
			t.Fatalf("%d waiters have places, and %d half a minute later, want %d", len(before), len(after), n)
		}
		for i := range after {
			if before[i] != after[i] {
				t.Fatalf("place %d was that of %s and is that of %s", i, before[i], after[i])
			}
		}
	})
}
