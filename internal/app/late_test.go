package app

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/internal/topology"
	"github.com/lockd-io/lockd/test/harness"
)

// While Redis answers late, for minutes and also from the start, no auto lease is lost and all are renewed.
func TestNoLeaseIsLostWhileRedisAnswersLate(t *testing.T) {
	leases, lasting := tier.Pick(50, 400), tier.Pick(6*time.Second, 2*time.Minute)
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	proxy.Delay(250 * time.Millisecond)
	cfg := testConfig()
	cfg.Store.Kind, cfg.Redis.Addr = topology.Standalone, proxy.Addr
	a, _ := startWith(t, cfg, zap.NewNop())

	held := make([]*client.Lock, 2*leases)
	var asking sync.WaitGroup
	for i, ttl := range []time.Duration{10 * time.Second, 30 * time.Second} {
		c, err := client.Dial(a.Addr(), client.WithSessionTTL(ttl))
		must(t, err)
		defer func() { _ = c.Close() }()
		for n := range leases {
			asking.Go(func() {
				for t.Context().Err() == nil && held[i*leases+n] == nil { // more come at once than this Redis can answer
					held[i*leases+n], _ = c.Lock(t.Context(), fmt.Sprint(ttl, n))
				}
			})
		}
	}
	asking.Wait()
	before, began, late := renewals(t, a), time.Now(), 250
	harness.Within(t, lasting+harness.Patience, "all that time has passed, and many leases were renewed", func() bool {
		proxy.Delay(time.Duration(late) * time.Millisecond)
		time.Sleep(700 * time.Millisecond)
		late = 250 + (late+137)%251
		return time.Since(began) > lasting && renewals(t, a)-before >= float64(leases)
	})
	for _, l := range held {
		if l.Err() != nil {
			t.Error(l.Err())
		}
	}
	proxy.Delay(0)
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

// A master that is silent when lockd stops is waited for as long as an operation may take, and that is no error.
func TestTheStopDoesNotWaitForASilentMaster(t *testing.T) {
	for name, noticed := range map[string]bool{"while it is asked": false, "while connections are made": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			masters := redistest.StartMasters(t, 3)
			cfg := testConfig()
			cfg.Store.Kind, cfg.Redlock.Members = topology.Redlock, redistest.Addrs(masters)
			a, stop := start(t, cfg)
			masters[2].Pause()
			defer masters[2].Resume()
			away := `lockd_redlock_member_up{member="` + masters[2].Addr + `"} 0`
			for end := time.Now().Add(20 * time.Second); noticed && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				_, metrics := get(t, a, "/metrics")
				noticed = !strings.Contains(metrics, away)
			}
			begun := time.Now()
			if err := stop(); err != nil {
				t.Errorf("the stop: %v", err)
			}
			if took := time.Since(begun); took > cfg.Shutdown.Timeout/2 { // the step of the store has a bound of its own
				t.Errorf("the stop took %v", took)
			}
		})
	}
}
