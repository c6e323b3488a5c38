package broker_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/test/harness"
)

// heap is the size of what lives.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// granted takes grants from an outbox until n have come.
func granted(t testing.TB, s *broker.Session, n int) (holds []session.Hold) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for len(holds) < n {
		select {
		case <-s.Outbox().Wake():
		case <-deadline:
			t.Fatalf("got %d grants, want %d", len(holds), n)
		}
		for _, e := range s.Outbox().TakeSome(math.MaxInt, math.MaxInt) {
			if g, ok := e.(session.Granted); ok {
				holds = append(holds, g.Hold)
			}
		}
	}
	return holds
}

func TestALeaseCostsLessThanAKibibyteAndItsEndGivesItBack(t *testing.T) {
	const leases, limit = 10000, 1024
	b := startOn(t, testConfig(), newFree(t)).b
	hold(t, b, leases, func(uint64) {}) // Go's maps keep the room they once needed
	goroutines, before := runtime.NumGoroutine(), heap()
	hold(t, b, leases, func(kept uint64) {
		each := (heap() - kept - before) / leases
		if each > limit {
			t.Errorf("a lease costs %d bytes, want at most %d", each, limit)
		}
		if more := runtime.NumGoroutine() - goroutines; more > 5 {
			t.Errorf("%d leases cost %d goroutines", leases, more)
		}
		t.Logf("a lease costs %d bytes", each)
	})
	harness.Until(t, "the memory of the leases is given back", func() bool { return heap() <= before+leases*64 })
}

// hold opens a session, takes locks, and releases all after look, which is told how many bytes hold itself keeps.
func hold(t *testing.T, b *broker.Broker, leases int, look func(kept uint64)) {
	t.Helper()
	s, err := b.Open(session.OpenRequest{})
	must(t, err)
	for i := range leases {
		s.Acquire(uint64(i+1), request.Acquire{Name: fmt.Sprintf("orders/customer-%08d", i), Kind: lock.Exclusive})
	}
	holds := granted(t, s, leases)
	look(uint64(cap(holds)) * uint64(unsafe.Sizeof(holds[0])))
	for i, h := range holds {
		s.Release(uint64(leases+i+1), h)
	}
	s.Goodbye()
	<-s.Done()
	// Go keeps a stopped timer, and with it the session, until it would have fired.
	s.Outbox().TakeSome(math.MaxInt, math.MaxInt)
}
