package alerts

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// fault is something that goes wrong, and what has to be told of it.
type fault struct {
	want []string // the alerts that fire, and end when the fault does
	may  []string // others that are right as well
	// cause causes it, and calls fires. What it returns ends it. With nil it cannot be ended here.
	cause func(t *testing.T, s *scene) (end func())
}

// scene is a replica that is scraped, and what is told of it.
type scene struct {
	*prometheus
	t    *testing.T
	addr string // where its metrics are
	want []string
	gaps []func() []harness.Gap // in which replicas did not answer
}

// serve starts a replica that is scraped until the end of the test.
func (s *scene) serve(env ...string) *harness.Lockd {
	s.t.Helper()
	d := harness.StartLockdOn(s.t, lockdBin, env...)
	s.gaps = append(s.gaps, harness.Gaps(time.Second/2, func() bool {
		code, _ := d.Get("/healthz")
		return code == http.StatusOK
	}))
	s.watch(s.t, d.Ops)
	s.addr = d.Ops
	return d
}

// late is the alert of who stands still, and of a machine that does: it is right then. The other alerts are about what
// lasts for longer, in these tests too.
const late = "LockdRenewalsLate"

// stoodStill is when replicas did. To be called once, at the end.
func (s *scene) stoodStill() (all []harness.Gap) {
	for _, stop := range s.gaps {
		all = append(all, stop()...)
	}
	s.gaps = nil
	if len(all) > 0 {
		s.t.Logf("replicas stood still %d times", len(all))
	}
	return all
}

// patient is what has a replica wait for a Redis that stands still: here a moment is 20 times as long.
var patient = []string{"LOCKD_REDIS_OP_TIMEOUT=3s", "LOCKD_SESSION_MIN_TTL=3s", "LOCKD_REDLOCK_NODE_TIMEOUT=3s"}

// on is what has a replica use one Redis.
func on(redis string, more ...string) []string {
	return slices.Concat(patient, []string{"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + redis}, more)
}

// over is what has a replica use a majority.
func over(servers []*redistest.Server, more ...string) []string {
	return slices.Concat(patient, []string{
		"LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS=" + strings.Join(redistest.Addrs(servers), ","),
	}, more)
}

// ttl is the TTL of most sessions here.
const ttl = 6 * time.Second

var shortTTL = "LOCKD_SESSION_TTL=" + ttl.String()

// fires waits until all alerts that are wanted fire at the same time.
func (s *scene) fires() {
	s.t.Helper()
	for _, alert := range s.want {
		harness.Until(s.t, alert+" fires", func() bool { return s.firing(s.t, alert, s.addr) })
	}
}

// TestFaultsFireTheirAlerts causes each fault, and then looks at each panel of each dashboard.
func TestFaultsFireTheirAlerts(t *testing.T) {
	needPrometheus(t)
	p := startPrometheus(t)
	told := map[string]bool{absentAlert: true} // see TestNoReplicaAtAllIsTold
	for _, f := range faults {
		for _, alert := range f.want {
			told[alert] = true
		}
	}
	for _, r := range parseRules(t, readRules(t)).Groups[0].Rules {
		if !told[r.Alert] {
			t.Errorf("no fault here fires %s", r.Alert)
		}
	}
	t.Run("faults", func(t *testing.T) {
		all := maps.Clone(faults)
		maps.Copy(all, onlyShown)
		for name, f := range all {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f.run(t, p)
			})
		}
	})
	t.Run("dashboards", func(t *testing.T) { dashboardsShowSomething(t, p) })
}

func (f fault) run(t *testing.T, p *prometheus) {
	s := &scene{prometheus: p, t: t, want: f.want}
	t.Cleanup(func() { s.stoodStill() })
	begun := time.Now()
	end := f.cause(t, s)
	s.fires()
	t.Logf("%v fire after %v, all told", f.want, time.Since(begun).Round(time.Millisecond))
	if end != nil {
		end()
		for _, alert := range f.want {
			harness.Until(t, alert+" ends", func() bool { return !s.firing(t, alert, s.addr) })
		}
	}
	may := f.may
	if len(s.stoodStill()) > 0 {
		may = append(slices.Clone(may), late)
	}
	for _, alert := range slices.Sorted(maps.Keys(p.fired(t, s.addr))) {
		if !slices.Contains(f.want, alert) && !slices.Contains(may, alert) {
			t.Errorf("%s fired, too", alert)
		}
	}
}

// dial makes a client for the time of a test.
func dial(t *testing.T, d *harness.Lockd, opts ...client.Option) *client.Client {
	t.Helper()
	return d.Dial(t, opts...)
}

// take takes a name, and releases it with the end of the test at the latest.
func take(t *testing.T, c *client.Client, name string, opts ...client.LockOption) *client.Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), name, opts...)
	harness.Must(t, err)
	return l
}

// takeMany takes many names.
func takeMany(t *testing.T, c *client.Client, n int) {
	t.Helper()
	for i := range n {
		take(t, c, fmt.Sprint("job ", i))
	}
}

// wait asks for a name that another one has, and gives up with the end of the test or when the function is called.
func wait(t *testing.T, c *client.Client, name string, opts ...client.LockOption) (giveUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if l, err := c.Lock(ctx, name, opts...); err == nil {
			_ = l.Unlock(context.Background()) // the server may be gone
		}
	}()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// hold takes a name in a session of its own whose client, other than the SDK, does not count by itself until when it
// holds, and so does not release what it lost.
func hold(t *testing.T, d *harness.Lockd, name string) {
	t.Helper()
	s, err := lockdv1.NewSessionServiceClient(d.Connect(t)).Session(t.Context())
	harness.Must(t, err)
	send := func(m *lockdv1.SessionRequest) { _ = s.Send(m) } // the answer says whether it came
	send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{}}})
	send(&lockdv1.SessionRequest{
		RequestId: 2,
		Message:   &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{Name: name}},
	})
	for granted := false; !granted; {
		r, err := s.Recv()
		harness.Must(t, err)
		granted = r.GetGranted() != nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := uint64(1); t.Context().Err() == nil; n++ {
			send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{SentId: n}}})
			time.Sleep(ttl / 5)
		}
	}()
	t.Cleanup(func() { <-done })
}
