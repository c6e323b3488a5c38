package broker_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// multitude is a broker with many sessions, which hold locks, and many that wait for one name.
type multitude struct {
	*broker.Broker
	t   *testing.T
	dog *watchdog.Watchdog[*broker.Lease]
	one *broker.Session
}

func newMultitude(t *testing.T, n int) multitude {
	cfg, reg, store := testConfig(), prometheus.NewRegistry(), memstore.New()
	cfg.Limits.Sessions, cfg.Limits.QueueLength, cfg.Limits.WaitersPerSession = n+2, n+1, n+1
	dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
	c := multitude{broker.New(cfg, store, dog, zap.NewNop(), reg), t, dog, nil}
	waiter := c.open()
	c.one = waiter
	for i := range n {
		s := c.open()
		s.Acquire(1, request.Acquire{Name: fmt.Sprint(i), Kind: lock.Exclusive})
		granted(t, s, 1)
		waiter.Acquire(uint64(i+1), request.Acquire{Name: "0", Kind: lock.Exclusive})
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

// TestWorkOnManyThingsIsDoneInPieces compares for how long it keeps others from a mutex with few and with many sessions
// and waiters.
func TestWorkOnManyThingsIsDoneInPieces(t *testing.T) {
	const few, many, most, rounds = 500, 9000, 8, 6
	small, large := map[string]time.Duration{}, map[string]time.Duration{}
	grows := func(what string) bool { return large[what] > most*max(small[what], 50*time.Microsecond) }
	for round := 0; round == 0 || round < rounds && slices.ContainsFunc(slices.Collect(maps.Keys(large)), grows); round++ {
		pieceCosts(t, few, small)
		pieceCosts(t, many, large)
	}
	var mu sync.Mutex
	if held := longestHold(
		&mu, func() { mu.Lock(); time.Sleep(2 * time.Millisecond); mu.Unlock() }); held < time.Millisecond {
		t.Fatalf("a mutex that is held for 2 ms seems to be held for %v", held)
	}
	for what, before := range small {
		t.Logf("%s: %v for %d, %v for %d", what, before, few, large[what], many)
		if grows(what) {
			t.Errorf("%s: a piece takes %v for %d, but %v for %d", what, before, few, large[what], many)
		}
	}
}

// pieceCosts is the longest time for which each kind of work has a mutex, the least of all times it was measured: what
// else the machine does makes it longer only.
func pieceCosts(t *testing.T, n int, costs map[string]time.Duration) {
	for range 4 {
		c := newMultitude(t, n)
		for which, mu := range c.one.Shared() {
			c.measureAll(costs, n, which, mu)
		}
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
		c.dog.Close()
	}
}

func (c multitude) measureAll(costs map[string]time.Duration, n int, which string, mu *sync.Mutex) {
	for what, f := range map[string]func(){
		"a page of sessions": func() { c.Sessions("", 100) },
		"a page of waiters": func() {
			if infos, _, err := c.Waiters(c.t.Context(), "0", n-100, 100); err != nil || len(infos) != 100 {
				c.t.Errorf("got %d waiters and %v", len(infos), err)
			}
		},
		"risk":         func() { c.Probed("", errors.New("away")) },
		"verification": func() { c.Probed("", nil) },
		"Drain":        func() { c.Drain(time.Second); c.Undrain() },
	} {
		leastOf(costs, what+", "+which, longestHold(mu, f))
	}
}

func leastOf(costs map[string]time.Duration, what string, cost time.Duration) {
	if known, ok := costs[what]; !ok || cost < known {
		costs[what] = cost
	}
}

// longestHold is the longest time for which a mutex cannot be locked while f runs.
func longestHold(mu *sync.Mutex, f func()) (longest time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for free := time.Now(); ; {
		select {
		case <-done:
			return longest
		default:
		}
		if mu.TryLock() {
			mu.Unlock()
			free = time.Now()
			runtime.Gosched()
		} else {
			longest = max(longest, time.Since(free))
		}
	}
}
