package main

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// forgetful is a server that takes the lock and says no, as one that was overtaken by its own attempt.
type forgetful struct {
	lockdv1.UnimplementedLockServiceServer
	answer          *lockdv1.NotGranted // nil = never
	asked, released atomic.Int32
}

func (f *forgetful) Acquire(ctx context.Context, _ *lockdv1.AcquireRequest) (*lockdv1.AcquireResponse, error) {
	f.asked.Add(1)
	if f.answer == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &lockdv1.AcquireResponse{Outcome: &lockdv1.AcquireResponse_NotGranted{NotGranted: f.answer}}, nil
}

func (f *forgetful) Release(context.Context, *lockdv1.ReleaseRequest) (*lockdv1.ReleaseResponse, error) {
	f.released.Add(1)
	return &lockdv1.ReleaseResponse{}, nil
}

func (f *forgetful) start(t *testing.T) string {
	return serve(t, func(s *grpc.Server) { lockdv1.RegisterLockServiceServer(s, f) })
}

func TestAcquireReleasesWhatItMayHaveTaken(t *testing.T) {
	t.Parallel()
	for cause, reason := range map[lockdv1.NotGranted_Cause]string{
		lockdv1.NotGranted_CAUSE_TIMED_OUT: "WAIT_TIMEOUT: ", lockdv1.NotGranted_CAUSE_HELD: "LOCK_BUSY: ",
	} {
		f := &forgetful{answer: &lockdv1.NotGranted{Cause: cause}}
		call(t, "--addr", f.start(t), "acquire", "n", "--lease", "1m", "--wait", "1s").want(t, exitNotObtained, "", reason)
		if n := f.released.Load(); n != 1 {
			t.Errorf("%v: released %d times, want once", cause, n)
		}
	}
	silent := &forgetful{}
	r := call(t, "--addr", silent.start(t), "--connect-timeout", "100ms", "acquire", "n", "--lease", "1m")
	oneTruth(t, r, "UNAVAILABLE", "outcome is unknown")
	if n := silent.released.Load(); n != 1 {
		t.Errorf("released %d times after no answer, want once", n)
	}
}

func TestAcquireEndedByASignal(t *testing.T) {
	t.Parallel()
	f := &forgetful{}
	p := start(t, "--addr", f.start(t), "acquire", "n", "--lease", "1m", "--wait", "1m")
	harness.Until(t, "it asks", func() bool { return f.asked.Load() > 0 })
	p.signal(syscall.SIGINT)
	p.wait(exitSignal+int(syscall.SIGINT), "")
	if n := f.released.Load(); n != 1 || p.stderr.String() != "" {
		t.Errorf("released %d times, want once; stderr %q", n, p.stderr.String())
	}
}

// When it cannot be released that is said.
func TestAcquireSaysWhatItMayHaveLeft(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	if _, err := s.Dial(t).Lock(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--addr", s.Addr, "--connect-timeout", "300ms", "acquire", "n", "--lease", "90s", "--wait", "1m")
	harness.Until(t, "it waits", func() bool {
		return strings.Contains(call(t, "--addr", s.Addr, "waiters", "n").stdout, " acquire")
	})
	s.Signal(syscall.SIGSTOP)
	p.signal(syscall.SIGTERM)
	p.wait(exitSignal+int(syscall.SIGTERM), "")
	p.says("its lease of 1m30s has ended")
}

// majority has exclusive locks only, as several stores have.
type majority struct {
	lockdv1.UnimplementedLockServiceServer
	released atomic.Int32
}

func (*majority) Get(context.Context, *lockdv1.GetRequest) (*lockdv1.GetResponse, error) {
	return &lockdv1.GetResponse{Lock: &lockdv1.LockState{Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE}}, nil
}

func (m *majority) Release(_ context.Context, r *lockdv1.ReleaseRequest) (*lockdv1.ReleaseResponse, error) {
	if r.GetKind() != lockdv1.LockKind_LOCK_KIND_EXCLUSIVE {
		return nil, status.Error(grpccodes.Unimplemented, "this store has no such locks")
	}
	m.released.Add(1)
	return &lockdv1.ReleaseResponse{}, nil
}

func TestReleaseFindsTheKind(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"exclusive", "fair", "read", "write"} {
		name := "kind found " + kind
		lease := parse(t, call(t, "acquire", name, "--kind", kind, "--lease", "1m").stdout, leaseKeys...)
		call(t, "release", name, strings.Repeat("x", 26)).want(t, exitFailed, "", "LOCK_NOT_HELD: ")
		call(t, "release", name, lease["lease_id"].(string)).want(t, 0, "", "")
		call(t, "release", name, lease["lease_id"].(string)).want(t, exitFailed, "", "LOCK_NOT_HELD: ")
	}
	m := &majority{}
	at := serve(t, func(s *grpc.Server) { lockdv1.RegisterLockServiceServer(s, m) })
	call(t, "--addr", at, "release", "n", "id").want(t, 0, "", "")
	if m.released.Load() != 1 {
		t.Error("nothing was released")
	}
}

// What exec was granted just now may be seen before the grant has come: it does not wait for itself.
func TestExecIsNotSaidToWaitForItself(t *testing.T) {
	t.Parallel()
	x := &execution{items: []client.Item{{Name: "n"}}}
	x.tell(client.Status{State: client.Connected, Session: "mine"})
	const held = `"n", held by a session`
	for session, want := range map[string]string{"mine": "", "another": held, "": held} {
		x.inspect = func(context.Context, string, uint32) (inspectView, error) {
			h := holderView{partyView: partyView{placeView: placeView{Session: session}}, Origin: "session"}
			return inspectView{lockView: lockView{Name: "n", Held: true}, Holds: []holderView{h}}, nil
		}
		if got, _ := x.holders(t.Context()); got != want {
			t.Errorf("held by session %q: got %q, want %q", session, got, want)
		}
	}
}

func TestOperatorsCommands(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	at := []string{"--addr", s.Addr, "--admin-addr", s.Admin}
	run := func(args ...string) result { return call(t, append(at, args...)...) }
	holder := start(t, append(at, "exec", "n", "--label", "team=a", "--client-name", "me", "--", "sh", "-c",
		"echo ready; read x")...)
	holder.line("ready")
	if r := run("sessions"); r.code != 0 || !strings.Contains(r.stdout, " me ") || !strings.Contains(r.stdout, "team=a") {
		t.Errorf("sessions: %+v", r)
	}
	if r := run("waiters", "n"); r.code != 0 || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("waiters: %+v", r)
	}
	v := parse(t, run("status", "-o", "json").stdout, "replica", "version", "uptime_ms", "ready", "draining", "store",
		"store_error", "sessions", "locks", "waiters", "clients_file", "hidden")
	if v["ready"] != true || v["store"] != "memory" || v["sessions"] != 1.0 || v["locks"] != 1.0 {
		t.Errorf("status: %v", v)
	}
	replica, _ := v["replica"].(string)
	run("drain").want(t, 0, replica+" drains, asked 1 session to move\n", "")
	if r := run("status"); r.code != exitUnavailable || r.stderr != "" {
		t.Errorf("status while draining: %+v", r)
	}
	run("drain", "--undo").want(t, 0, replica+" takes clients again\n", "")
	run("drain", "--undo").want(t, 0, replica+" was not draining\n", "")
	parse(t, run("version", "-o", "json").stdout, "version", "go")
}
