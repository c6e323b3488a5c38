package app

import (
	"fmt"
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

// While Redis answers late, for minutes and also from the start, no auto lease is lost and all are renewed.
func TestNoLeaseIsLostWhileRedisAnswersLate(t *testing.T) {
	const leases uint64 = 400
	lasting := 2 * time.Minute
	if testing.Short() {
		lasting = 10 * time.Second
	}
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
	for end := time.Now().Add(30 * time.Second); granted.Load() < int64(2*leases); time.Sleep(10 * time.Millisecond) {
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
	// The watchdog renews each lease three times in a TTL.
	due := float64(leases) * time.Since(began).Seconds() * 3 * (1./3 + 1./30)
	t.Logf("%d lost, %.0f renewals, %.0f are due", lost.Load(), done, due)
	if lost.Load() > 0 {
		t.Errorf("%d leases were lost", lost.Load())
	}
	if done < due/2 {
		t.Errorf("%.0f renewals, want about %.0f", done, due)
	}
	proxy.Delay(0)
}
