package session

import (
	"fmt"
	"testing"

	"github.com/lockd-io/lockd/internal/benchtest"
)

// Who watches very many names is told of one of them at the cost of one, also when all of them had ended once.
func TestAnEndIsTakenAtItsOwnCost(t *testing.T) {
	benchtest.Linear(t, 500, func(n int) func() {
		o := newOutbox(2 * n)
		for i := range n {
			o.put(Unlocked{Name: fmt.Sprint("name-", i)})
		}
		if got := len(o.TakeSome(n+1, 1<<40)); got != n {
			t.Fatalf("%d of %d were taken", got, n)
		}
		return func() {
			for range n {
				o.put(Unlocked{Name: "one"})
				if got := len(o.TakeSome(10, 1<<20)); got != 1 {
					t.Fatalf("%d were taken", got)
				}
			}
		}
	})
}
