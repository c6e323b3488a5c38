package broker_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// generous is a Store that grants everything and remembers nothing, so that what a lease costs is the broker's.
type generous struct {
	lock.Store
	fence atomic.Uint64
	later chan func() // run by one goroutine: what many once needed stays with the process
}

func newGenerous(t testing.TB) *generous {
	g := &generous{Store: memstore.New(), later: make(chan func(), 20000)} // room for all: submitting must not block
	t.Cleanup(func() { close(g.later) })
	go func() {
		for f := range g.later {
			f()
		}
	}()
	return g
}

func (g *generous) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	f := lock.Fence(g.fence.Add(1))
	g.later <- func() { done(lock.Grant{Fence: f, TTL: c.TTL}, nil) }
}

func (g *generous) StartRelease(_ lock.Return, done func(lock.Returned, error)) {
	g.later <- func() { done(lock.Returned{}, nil) }
}

func (g *generous) Renew(_ context.Context, rs []lock.Renewal, done func(int, error)) {
	for i := range rs {
		done(i, nil)
	}
}

func (g *generous) Extend(_ context.Context, r lock.Renewal) (time.Duration, error) {
	return r.TTL, nil
}

func (g *generous) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	g.later <- func() { done(r.TTL, nil) }
}

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
		for _, e := range s.Outbox().Take() {
			if g, ok := e.(session.Granted); ok {
				holds = append(holds, g.Hold)
			}
		}
	}
	return holds
}

func TestALeaseCostsLessThanAKibibyteAndItsEndGivesItBack(t *testing.T) {
	const leases, limit = 10000, 1024
	store := newGenerous(t)
	reg := prometheus.NewRegistry()
	dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
	defer dog.Close()
	b := broker.New(testConfig(), store, dog, zap.NewNop(), reg)
	defer func() { _ = b.Close(context.Background()) }()
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
	// Go's maps keep the room they once needed; nothing else may stay.
	if after := heap(); after > before+leases*256 {
		t.Errorf("%d bytes are left of %d leases", after-before, leases)
	}
}

// hold opens a session, takes locks, and gives all back after look, which is told how many bytes hold itself keeps.
func hold(t *testing.T, b *broker.Broker, leases int, look func(kept uint64)) {
	t.Helper()
	s, err := b.Open(broker.OpenRequest{})
	if err != nil {
		t.Fatal(err)
	}
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
}
