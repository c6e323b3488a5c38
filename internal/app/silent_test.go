package app

import (
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/redistest"
)

// A master that is silent when lockd stops is waited for as long as an operation may take, and that is no error.
func TestTheStopDoesNotWaitForASilentMaster(t *testing.T) {
	for name, noticed := range map[string]bool{"while it is asked": false, "while connections are made": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			masters := redistest.StartMasters(t, 3)
			cfg := testConfig()
			cfg.Store.Kind, cfg.Redlock.Members = config.StoreRedlock, redistest.Addrs(masters)
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
