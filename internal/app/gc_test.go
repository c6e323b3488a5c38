package app

import (
	"runtime"
	"testing"
	"time"
)

func TestALargerHeapMayGrowByAPartOfItself(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 800},
		{20 << 20, 800},
		{48 << 20, 800},
		{96 << 20, 400},
		{192 << 20, 200},
		{384 << 20, 100},
		{768 << 20, 50},
		{4 << 30, 50},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("%d MiB: got %d, want %d", c.live>>20, got, c.want)
		}
	}
}

func TestTheHeapIsLookedAtAfterEachCollection(t *testing.T) {
	times := make(chan struct{}, 100)
	afterEachGC(func() {
		select {
		case times <- struct{}{}:
		default:
		}
	})
	for i := range 3 {
		for end := time.Now().Add(10 * time.Second); ; {
			runtime.GC() // one that comes before the next look was prepared is not looked at
			select {
			case <-times:
			case <-time.After(50 * time.Millisecond):
				if time.Now().Before(end) {
					continue
				}
				t.Fatalf("nothing happened after collection %d", i+1)
			}
			break
		}
	}
}
