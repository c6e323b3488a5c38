package faultrun

import (
	"net/http"
	"syscall"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

// left waits until all sessions of a replica have gone on elsewhere, none of them because its stream broke.
func (k *keepers) left(i int, since time.Duration) {
	k.f.t.Helper()
	k.awaitMoves(since, harness.Patience)
	k.f.awaitNoSessions(i)
	k.f.must(k.verify())
	for _, m := range k.f.all() {
		if cuts, ends := m.cuts.Load(), m.ends.Load(); cuts > 0 || ends > 0 {
			k.f.t.Errorf("%s: %d streams broke, %d sessions ended", m.id, cuts, ends)
		}
	}
}

func (f *fleet) ready(i, want int) {
	f.t.Helper()
	if code, body := f.replicas[i].Get("/readyz"); code != want {
		f.t.Errorf("/readyz of replica %d: %d %s, want %d", i, code, body, want)
	}
}

// Operators drain a replica by lockctl and by a call, and take that back; SIGTERM drains it for good. In each case its
// sessions go on elsewhere with their locks, and it is not ready.
func TestReplicasAreDrained(t *testing.T) {
	t.Parallel()
	lockctl, err := harness.Build("lockctl")
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t, lockdBin, oneRedis, 30*time.Second)
	k := keep(f, 10)
	d := f.replicas[0]

	since := f.rec.now()
	d.Tool(lockctl, "drain", "--within", "4s").Want(0, "draining, asked 10 sessions to move\n")
	f.ready(0, http.StatusServiceUnavailable)
	k.left(0, since)
	d.Tool(lockctl, "drain", "--undo").Want(0, "takes clients again\n")
	f.ready(0, http.StatusOK)
	if _, err := f.dial("new", 0).take(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if n := d.Metric("lockd_sessions"); n != 1 {
		t.Errorf("%v sessions after the drain was taken back, want the new one", n)
	}

	admin := lockdv1.NewAdminServiceClient(f.replicas[1].Operate(t))
	there := uint32(f.replicas[1].Metric("lockd_sessions"))
	r, err := admin.Drain(t.Context(), &lockdv1.DrainRequest{})
	if err != nil || r.GetSessions() != there {
		t.Fatalf("%v, %v; want %d sessions", r, err, there)
	}
	f.ready(1, http.StatusServiceUnavailable)
	f.awaitNoSessions(1)
	f.must(k.verify())
	if r, err := admin.Undrain(t.Context(), &lockdv1.UndrainRequest{}); err != nil || !r.GetDrained() {
		t.Errorf("%v, %v", r, err)
	}
	f.ready(1, http.StatusOK)

	f.replicas[2].Signal(syscall.SIGTERM)
	if code := f.replicas[2].Code(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if f.replicas[2].Logged("not all sessions moved; ending them") != nil {
		t.Error("the window ended before all had moved")
	}
	f.must(k.verify(), k.give())
	f.noneLost()
	if f.replicas[2].Logged("a session ended with locks held") != nil {
		t.Error("what moved is told as lost")
	}
}

// Clients that were all at one replica spread, because their streams become old.
func TestSessionsSpreadOverReplicas(t *testing.T) {
	t.Parallel()
	s := oneRedis
	s.start = func(t *testing.T) []string {
		return append(oneRedis.start(t), "LOCKD_SESSION_MAX_STREAM_AGE=1s")
	}
	f := newFleet(t, lockdBin, s, 30*time.Second)
	k := keep(f, 12)
	harness.Until(t, "each replica has sessions, and each session has moved", func() bool {
		for _, d := range f.replicas {
			if d.Metric("lockd_sessions") == 0 {
				return false
			}
		}
		for _, m := range k.each {
			if len(m.moves()) == 0 {
				return false
			}
		}
		return true
	})
	f.must(k.verify(), k.give())
	for _, m := range k.each {
		if m.cuts.Load() > 0 {
			t.Errorf("%s: its stream broke", m.id)
		}
	}
	f.noneLost()
}
