package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

func TestSIGTERMStopsWithinTheDrainWindow(t *testing.T) {
	t.Parallel()
	const window = 2 * time.Second
	d, rc := oneReplica(t, "LOCKD_SHUTDOWN_DRAIN_WINDOW="+window.String(), "LOCKD_SHUTDOWN_TIMEOUT=20s")
	conn := d.Connect(t)
	stays := open(t, conn, &lockdv1.Open{SessionTtl: seconds(shortly.Seconds())})
	stays.take(1, "stays")
	defer stays.beat(shortly / 3)()
	frees := open(t, conn, &lockdv1.Open{OnDisconnect: lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE})
	frees.take(1, "frees")
	waits := open(t, conn, &lockdv1.Open{})
	waits.send(acquire(1, &lockdv1.Acquire{Name: "stays"}))
	if waits.recv().GetQueued() == nil {
		t.Fatal("want Queued")
	}

	d.Signal(syscall.SIGTERM)
	began := time.Now()
	m := stays.recv()
	for m.GetHeartbeatAck() != nil {
		m = stays.recv()
	}
	if m.GetDraining() == nil || m.GetDraining().GetReconnectWithin().AsDuration() > window {
		t.Errorf("got %v, want Draining", m)
	}
	// Who is told to move finds that nobody is sent here any more.
	if code, body := d.Get("/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, body := d.Get("/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, body)
	}
	for _, service := range []string{"", lockdv1.SessionService_ServiceDesc.ServiceName} {
		req := &grpc_health_v1.HealthCheckRequest{Service: service}
		h, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), req)
		if err != nil || h.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
			t.Errorf("health of %q: %v, %v", service, h, err)
		}
	}
	late := raw(t, conn)
	late.send(openWith(&lockdv1.Open{}))
	if st := late.end(); st.Code() != codes.Unavailable || reasonOf(st) != "DRAINING" {
		t.Errorf("a new session: %v %s", st, reasonOf(st))
	}

	for name, c := range map[string]*stream{"stays": stays, "frees": frees, "waits": waits} {
		st, closing := lastWords(c)
		if closing.GetReason() != "DRAINING" || st.Code() != codes.Unavailable || reasonOf(st) != "DRAINING" {
			t.Errorf("%s: Closing %v, the stream's end %v; want DRAINING", name, closing, st)
		}
	}
	code := d.Code()
	if took := time.Since(began); code != 0 || took < window {
		t.Errorf("exit code %d after %v", code, took)
	}
	if log := d.Stderr.String(); d.Logged("lockd stopped")["error"] != nil || strings.Contains(log, `"level":"error"`) {
		t.Errorf("it did not stop cleanly: %s", log)
	}
	// What its holder may still use runs out; the rest is free.
	if found := keys(t, rc); fmt.Sprint(found) != "[stays]" {
		t.Errorf("Redis has %q", found)
	}
	if s := look(t, rc, "stays"); s.pttl > shortly {
		t.Errorf("PTTL %v", s.pttl)
	}
	harness.Until(t, "nothing is left", func() bool { return len(keys(t, rc)) == 0 })
}

// lastWords reads a stream to its end, and returns how it ended and what its Closing said.
func lastWords(c *stream) (end *status.Status, closing *lockdv1.Failure) {
	for {
		m, err := c.Recv()
		if err != nil {
			return status.Convert(err), closing
		}
		if m.GetClosing() != nil {
			closing = m.GetClosing().GetFailure()
		}
	}
}

func TestSIGTERMStopsAtOnceWhenNobodyIsThere(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t, "LOCKD_SHUTDOWN_DRAIN_WINDOW=10m", "LOCKD_SHUTDOWN_TIMEOUT=11m")
	c := d.Dial(t)
	mustUnlock(t, mustLock(t, c, "job"))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	d.Signal(syscall.SIGTERM)
	if code := d.Code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if found := keys(t, rc); len(found) > 0 {
		t.Errorf("left behind: %q", found)
	}
}
