package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// The clients of a replica that is killed, stands still or drains go on at another one, with all their locks.
func TestHoldersGoOnAtAnotherReplica(t *testing.T) {
	t.Parallel()
	for what, sig := range map[string]syscall.Signal{
		"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP, "drained": syscall.SIGTERM,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			masters := []*redistest.Server{redistest.Start(t)}
			ds := startReplicas(t, masters, 2)
			var locks [10]*client.Lock
			var told [len(locks)]statuses
			for i := range locks {
				told[i] = make(statuses, 100)
				c := harness.Dial(t, ds[0].Addr+","+ds[1].Addr, told[i].option(), client.WithSessionTTL(20*time.Second))
				locks[i] = mustLock(t, c, fmt.Sprint("job ", i))
				recorded(t, masters, told[i].await(t, client.Connected).Session)
			}
			ds[0].Signal(sig)
			other := ds[1].Dial(t)
			for i, l := range locks {
				told[i].await(t, client.Connected)
				if _, err := other.TryLock(t.Context(), l.Name()); !errors.Is(err, client.ErrHeld) {
					t.Errorf("%s: somebody else was told %v", l.Name(), err)
				}
				mustUnlock(t, l)
				if next := mustLock(t, other, l.Name()); next.Fence() <= l.Fence() {
					t.Errorf("fence %d after %d", next.Fence(), l.Fence())
				}
			}
		})
	}
}

func TestSIGTERMStopsAfterTheDrainWindow(t *testing.T) {
	t.Parallel()
	const window = 6 * time.Second // of which the question below may take long
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
