package broker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// multitude is a broker with many sessions, which hold locks, and many that wait for one name.
type multitude struct {
	*broker.Broker
	t   *testing.T
	dog *watchdog.Watchdog[*broker.Lease]
}

func newMultitude(t *testing.T, n int) multitude {
	cfg, reg, store := testConfig(), prometheus.NewRegistry(), memstore.New()
	cfg.Limits.Sessions, cfg.Limits.QueueLength, cfg.Limits.WaitersPerSession = n+2, n+1, n+1
	dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
	c := multitude{broker.New(cfg, store, dog, zap.NewNop(), reg), t, dog}
	waiter := c.open()
	for i := range n {
		s := c.open()
		s.Acquire(1, broker.AcquireRequest{Name: fmt.Sprint(i), Kind: lock.Exclusive})
		granted(t, s, 1)
		waiter.Acquire(uint64(i+1), broker.AcquireRequest{Name: "0", Kind: lock.Exclusive})
	}
	return c
}

func (c multitude) open() *broker.Session {
	s, err := c.Open(broker.OpenRequest{})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// TestWorkOnManyThingsIsDoneInPieces compares how long one piece of it takes with few and with many sessions and waiters.
// Nobody else gets the mutex meanwhile.
func TestWorkOnManyThingsIsDoneInPieces(t *testing.T) {
	const few, many, most = 500, 9000, 8
	small, large := pieceCosts(t, few), pieceCosts(t, many)
	for what, before := range small {
		t.Logf("%s: a piece takes %v for %d, %v for %d", what, before, few, large[what], many)
		if large[what] > most*max(before, 20*time.Microsecond) { // the clock of a thread is coarse
			t.Errorf("%s: a piece takes %v for %d, but %v for %d", what, before, few, large[what], many)
		}
	}
}

// worked is how long this thread has worked. What else the machine does meanwhile does not count.
func worked() time.Duration {
	var use syscall.Rusage
	_ = syscall.Getrusage(rusageThread, &use) // cannot fail
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

const rusageThread = 1 // RUSAGE_THREAD, which package syscall does not have

func pieceCosts(t *testing.T, n int) map[string]time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	costs := map[string]time.Duration{}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 5 {
		c := newMultitude(t, n)
		measure := func(what string, f func()) {
			runtime.GC() // none in between
			pieces, began := c.Pieces(), worked()
			f()
			cost := (worked() - began) / time.Duration(c.Pieces()-pieces+1)
			if known, ok := costs[what]; !ok || cost < known {
				costs[what] = cost
			}
		}
		measure("a page of sessions", func() { c.Sessions("", 100) })
		measure("a page of waiters", func() {
			if infos, err := c.Waiters(t.Context(), "0", n-100, 100); err != nil || len(infos) != 100 {
				t.Errorf("got %d waiters and %v", len(infos), err)
			}
		})
		measure("risk", func() { c.Probed("", errors.New("away")) })
		measure("verification", func() { c.Probed("", nil) })
		measure("Drain", func() { c.Drain(time.Second) })
		measure("Close", func() {
			if err := c.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		c.dog.Close()
	}
	return costs
}
