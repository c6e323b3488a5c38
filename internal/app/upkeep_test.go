package app

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A session with the shortest TTL that takes all locks it can get, and is heard without a pause, takes less than half
// of a neighbour's speed, and no lease.
func TestRenewalsOfASessionLeaveOthersTheirSpeed(t *testing.T) {
	const ttl = time.Second
	a := startOnRedis(t)
	var lost atomic.Int64
	holder := openSession(t, a, 2*time.Second, func(_ *broker.Session, e session.Event) {
		if _, ok := e.(session.Lost); ok {
			lost.Add(1)
		}
	})
	for i := range 100 {
		holder.Acquire(uint64(i+1), request.Acquire{Name: fmt.Sprint("held ", i), Kind: lock.Exclusive})
	}
	var pairs atomic.Int64
	for i := range 8 {
		lockAndUnlock(t, a, fmt.Sprint("pair ", i), &pairs)
	}
	speed := func(d time.Duration) float64 {
		before, began := pairs.Load(), time.Now()
		time.Sleep(d)
		return float64(pairs.Load()-before) / time.Since(began).Seconds()
	}
	speed(500 * time.Millisecond)
	alone := speed(3 * time.Second)

	var held atomic.Int64
	hostile := openSession(t, a, ttl, func(s *broker.Session, e session.Event) {
		if _, ok := e.(session.Granted); ok {
			held.Add(1)
		}
	})
	for i := range 10_000 {
		hostile.Acquire(uint64(i+1), request.Acquire{Name: fmt.Sprint("hoard ", i), Kind: lock.Exclusive})
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		for ctx.Err() == nil {
			hostile.Heartbeat(0, 1)
			time.Sleep(time.Millisecond)
		}
	}()
	speed(3 * time.Second)
	before, began := renewals(t, a), time.Now()
	beside := speed(6 * time.Second)
	often := (renewals(t, a) - before) / time.Since(began).Seconds()
	hostile.Goodbye()
	<-hostile.Done()
	speed(time.Second)
	again := speed(3 * time.Second)

	t.Logf("%.0f pairs/s, beside %d locks that are renewed %.0f times a second %.0f, and then %.0f",
		alone, held.Load(), often, beside, again)
	if held.Load() < 500 {
		t.Error("too little happened for this test to mean anything")
	}
	if often > 5000 {
		t.Errorf("%.0f renewals a second, want at most four for each of the 1,000 locks that the TTL allows", often)
	}
	if beside < (alone+again)/4 {
		t.Errorf("beside renewals the neighbour is left %.0f of its %.0f pairs/s, want more than half", beside,
			(alone+again)/2)
	}
	if n := lost.Load(); n > 0 {
		t.Errorf("%d leases were lost", n)
	}
}

// lockAndUnlock opens a session that locks a name and releases it again, until the test ends.
func lockAndUnlock(t *testing.T, a *App, name string, pairs *atomic.Int64) {
	id := uint64(1)
	lock := func(s *broker.Session) {
		id++
		s.Acquire(id, request.Acquire{Name: name, Kind: lock.Exclusive})
	}
	lock(openSession(t, a, time.Minute, func(s *broker.Session, e session.Event) {
		switch e := e.(type) {
		case session.Granted:
			id++
			s.Release(id, e.Hold)
		case session.Released:
			pairs.Add(1)
			lock(s)
		}
	}))
}

// renewals is how many there were.
func renewals(t *testing.T, a *App) (sum float64) {
	_, page := get(t, a, "/metrics")
	for line := range strings.Lines(page) {
		var n float64
		if found, err := fmt.Sscanf(line, `lockd_renew_total{result="renewed"} %g`, &n); err == nil {
			sum += n * float64(found)
		}
	}
	if sum == 0 {
		t.Fatal("renewals are not counted")
	}
	return sum
}
