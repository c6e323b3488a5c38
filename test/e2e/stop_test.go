package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func TestSIGTERMStopsAfterTheDrainWindow(t *testing.T) {
	t.Parallel()
	const window = 2 * time.Second
	rs, d := oneReplica(t, soonOver, "LOCKD_SHUTDOWN_DRAIN_WINDOW="+window.String(), "LOCKD_SHUTDOWN_TIMEOUT=1m")
	told := make(statuses, 100)
	stays := mustLock(t, d.Dial(t, told.option()), "stays")
	mustLock(t, d.Dial(t, client.WithReleaseOnDisconnect()), "frees")
	queue(t, d.Dial(t), "stays")

	began := time.Now()
	d.Signal(syscall.SIGTERM)
	told.await(t, client.Draining)
	// Who is told to move finds that nobody is sent here any more.
	if code, body := d.Get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code := d.Code(); code != 0 || time.Since(began) < window {
		t.Errorf("exit code %d after %v", code, time.Since(began))
	}
	if log := d.Stderr.String(); d.Logged("lockd stopped")["error"] != nil || strings.Contains(log, `"level":"error"`) {
		t.Errorf("it did not stop cleanly: %s", log)
	}
	// What its holder may still use runs out; the rest is free.
	if has(t, rs, "frees") || !has(t, rs, "stays") && stays.Err() == nil {
		t.Errorf("Redis has %q, and its holder %v", keys(t, rs.Client()), stays.Err())
	}
	harness.Until(t, "nothing is left", func() bool { return len(keys(t, rs.Client())) == 0 })
}
