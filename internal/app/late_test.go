package app

import (
	"context"
	"fmt"
	"strings"
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
	"github.com/lockd-io/lockd/internal/tier"
)

// While Redis answers late, for minutes and also from the start, no auto lease is lost and all are renewed.
func TestNoLeaseIsLostWhileRedisAnswersLate(t *testing.T) {
	leases, lasting := tier.Pick(uint64(50), 400), tier.Pick(6*time.Second, 2*time.Minute)
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	proxy.Delay(250 * time.Millisecond)
	cfg := testConfig()
	cfg.Store.Kind, cfg.Redis.Addr = config.StoreStandalone, proxy.Addr
	a, _ := startWith(t, cfg, zap.NewNop())

	var granted, lost atomic.Int64
	for _, ttl := range []time.Duration{3 * time.Second, 30 * time.Second} {
		ask := func(s *broker.Session, id uint64) {
			s.Acquire(id, request.Acquire{Name: fmt.Sprint(ttl, id%leases), Kind: lock.Exclusive})
		}
		s := openSession(t, a, ttl, func(s *broker.Session, e session.Event) {
			switch e := e.(type) {
			case session.Granted:
				granted.Add(1)
			case session.Lost:
				lost.Add(1)
			case session.Failed: // more came at once than this Redis can answer
				ask(s, e.ID+leases)
			}
		})
		for i := range leases {
			ask(s, i+1)
		}
	}
	for end := time.Now().Add(time.Minute); granted.Load() < int64(2*leases); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("only %d of %d locks are granted", granted.Load(), 2*leases)
		}
	}
	before, began := renewals(t, a), time.Now()
	for late := 250; time.Since(began) < lasting; late = 250 + (late+137)%251 {
		proxy.Delay(time.Duration(late) * time.Millisecond)
		time.Sleep(700 * time.Millisecond)
	}
	done := renewals(t, a) - before
	if lost.Load() > 0 {
		t.Errorf("%d leases were lost", lost.Load())
	}
	if done < float64(leases) {
		t.Errorf("%.0f renewals of %d leases that last a half of that time", done, leases)
	}
	proxy.Delay(0)
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

// renewals is how many there were.
func renewals(t *testing.T, a *App) (sum float64) {
	_, page := get(t, a, "/metrics")
	for line := range strings.Lines(page) {
		var n float64
		if found, err := fmt.Sscanf(line, `lockd_renew_total{result="renewed"} %g`, &n); err == nil {
			sum += n * float64(found)
		}
	}
	return sum
}
