package app

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// startOnRedis starts an App whose leases live in a Redis of the test's own.
func startOnRedis(t *testing.T) *App {
	t.Helper()
	cfg := testConfig()
	cfg.Store.Kind, cfg.Redis.Addr = config.StoreStandalone, redistest.Start(t).Addr
	a, _ := startWith(t, cfg, zap.NewNop())
	return a
}

// openSession opens a session of the core and passes each of its events to hear, in a goroutine, until the test ends.
func openSession(t *testing.T, a *App, ttl time.Duration,
	hear func(s *broker.Session, e session.Event),
) *broker.Session {
	t.Helper()
	s, err := a.broker.Open(broker.OpenRequest{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		beat := time.NewTicker(ttl / 4) // also while answers come without a pause
		defer beat.Stop()
		for {
			select {
			case <-s.Outbox().Wake():
			case <-beat.C:
				s.Hear()
			case <-ctx.Done():
				return
			}
			for _, e := range s.Outbox().Take() {
				hear(s, e)
			}
		}
	})
	t.Cleanup(func() {
		s.Goodbye()
		cancel()
		wg.Wait()
	})
	return s
}

// Sessions that prolong their fixed leases without a pause take no lease from a third.
func TestExtendingWithoutPauseLosesNobodysLease(t *testing.T) {
	const sessions, leases, ttl = 4, 9000, 2 * time.Second
	a := startOnRedis(t)
	lost, granted := make(chan session.Lost, 1), make(chan session.Granted, 1)
	victim := openSession(t, a, ttl, func(_ *broker.Session, e session.Event) {
		switch e := e.(type) {
		case session.Granted:
			granted <- e
		case session.Lost:
			lost <- e
		}
	})
	victim.Acquire(1, request.Acquire{Name: "victim", Kind: lock.Exclusive})
	<-granted
	var extended atomic.Int64
	for i := range sessions {
		hostile := extendWithoutPause(t, a, &extended)
		for n := range leases {
			hostile.Acquire(uint64(n+1), request.Acquire{
				Name: fmt.Sprint("fixed ", i, n), Kind: lock.Exclusive, Lease: new(time.Hour),
			})
		}
	}
	select {
	case l := <-lost:
		t.Errorf("the victim lost its lease: %v", l.Reason)
	case <-time.After(5 * ttl):
	}
	t.Logf("%d extensions", extended.Load())
	if extended.Load() < sessions*leases {
		t.Error("too little happened for this test to mean anything")
	}
}

// extendWithoutPause opens a session that extends whatever it is granted, again and again.
func extendWithoutPause(t *testing.T, a *App, extended *atomic.Int64) *broker.Session {
	holds, id := map[uint64]session.Hold{}, uint64(1_000_000)
	extend := func(s *broker.Session, h session.Hold) {
		id++
		holds[id] = h
		s.Extend(id, request.Extend{Hold: h, Lease: new(time.Hour)})
	}
	return openSession(t, a, time.Minute, func(s *broker.Session, e session.Event) {
		switch e := e.(type) {
		case session.Granted:
			extend(s, e.Hold)
		case session.Extended:
			extended.Add(1)
			extend(s, holds[e.ID])
			delete(holds, e.ID)
		case session.Failed:
			if h, ok := holds[e.ID]; ok {
				extend(s, h)
				delete(holds, e.ID)
			}
		}
	})
}
