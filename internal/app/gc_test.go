package app

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"
)

func TestALargerHeapMayGrowByAPartOfItself(t *testing.T) {
	for _, c := range []struct {
		live, still uint64
		want        int
	}{
		{0, 0, 800},
		{20 << 20, 0, 800},
		{48 << 20, 0, 800},
		{96 << 20, 0, 400},
		{192 << 20, 0, 200},
		{384 << 20, 0, 100},
		{768 << 20, 0, 50},
		{4 << 30, 0, 50},
		{20 << 20, 15 << 20, 200}, // by as much as 5 MiB
		{20 << 20, 20 << 20, 50},
		{20 << 20, 25 << 20, 50}, // that were taken since
		{96 << 20, 15 << 20, 400},
	} {
		if got := percentFor(c.live, c.still); got != c.want {
			t.Errorf("%d MiB, %d of them still: got %d, want %d", c.live>>20, c.still>>20, got, c.want)
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

// The stacks of many goroutines count, too: Go adds its percentage of them, as of the heap.
func TestManyStacksDoNotRaiseTheHeadroom(t *testing.T) {
	const goroutines = 10_000
	var begun, ended sync.WaitGroup
	over := make(chan struct{})
	for range goroutines {
		begun.Add(1)
		ended.Go(func() { deep(&begun, over) })
	}
	begun.Wait()
	defer ended.Wait()
	defer close(over)
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if heap := live[0].Value.Uint64(); gcBase() < heap+goroutines<<10 {
		t.Errorf("GOGC is reckoned from %d bytes, of which %d live in the heap: where are the stacks?", gcBase(), heap)
	}
}

//go:noinline
func deep(begun *sync.WaitGroup, over chan struct{}) {
	var used [4 << 10]byte
	begun.Done()
	<-over
	runtime.KeepAlive(&used)
}
