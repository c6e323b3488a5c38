package console

import (
	"context"
	"fmt"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// A semaphore has as many waits as waiters times holders.
func TestAGraphIsBoundedWhileItIsMade(t *testing.T) {
	var holders []*node
	for i := range 1000 {
		holders = append(holders, &node{ID: fmt.Sprint("holder-", i)})
	}
	var waiters []*lockdv1.WaiterInfo
	for i := range 1000 {
		waiters = append(waiters, &lockdv1.WaiterInfo{Name: "permits", SessionId: fmt.Sprint("waiter-", i)})
	}
	cut := false
	allocs := testing.AllocsPerRun(1, func() {
		f := new(foundBlockers)
		f.draw(waiters, map[string][]*node{"permits": holders})
		cut = f.Cut
	})
	if allocs > 20*mostWaits || !cut {
		t.Errorf("%v allocations for %d waits, cut %v", allocs, mostWaits, cut)
	}
}

// One client that looks at everything leaves room for others, and what is over takes none.
func TestOneClientLeavesOthersRoom(t *testing.T) {
	c := cache{all: map[string]*kept{}}
	look := func(of string, counts time.Duration) (n int) {
		for i := range 1000 {
			key := fmt.Sprintf("%s\x00%d", of, i)
			if _, err := c.get(context.Background(), key, counts, func() (any, error) { return i, nil }); err == nil {
				n++
			}
		}
		return n
	}
	if n := look("greedy", time.Hour); n != keptOfOne {
		t.Errorf("one client has %d answers", n)
	}
	if n := look("other", 0); n != 1000 || len(c.all) != keptOfOne+1 {
		t.Errorf("another one was answered %d of 1000 times, and %d answers are kept", n, len(c.all))
	}
}
