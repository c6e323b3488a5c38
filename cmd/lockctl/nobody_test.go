package main

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
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

func startForgetful(t *testing.T, f *forgetful) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	lockdv1.RegisterLockServiceServer(srv, f)
	go func() { _ = srv.Serve(lis) }()
	t.Cleanup(srv.Stop)
	return lis.Addr().String()
}

func TestAcquireReleasesWhatItMayHaveTaken(t *testing.T) {
	t.Parallel()
	for cause, reason := range map[lockdv1.NotGranted_Cause]string{
		lockdv1.NotGranted_CAUSE_TIMED_OUT: "WAIT_TIMEOUT: ", lockdv1.NotGranted_CAUSE_HELD: "LOCK_BUSY: ",
	} {
		f := &forgetful{answer: &lockdv1.NotGranted{Cause: cause}}
		call(t, "--addr", startForgetful(t, f), "acquire", "n", "--lease", "1m", "--wait", "1s").want(t, exitNotObtained, "",
			reason)
		if n := f.released.Load(); n != 1 {
			t.Errorf("%v: released %d times, want once", cause, n)
		}
	}
}

func TestAcquireEndedByASignal(t *testing.T) {
	t.Parallel()
	f := &forgetful{}
	r := start(t, "--addr", startForgetful(t, f), "acquire", "n", "--lease", "1m", "--wait", "1m")
	for f.asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.signal(syscall.SIGINT)
	if code, out := r.wait(); code != exitSignal+int(syscall.SIGINT) || out != "" || r.stderr.String() != "" {
		t.Errorf("code %d, stdout %q, stderr %q", code, out, r.stderr.String())
	}
	if n := f.released.Load(); n != 1 {
		t.Errorf("released %d times, want once", n)
	}
}

// When it cannot be released that is said.
func TestAcquireSaysWhatItMayHaveLeft(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	hold := start(t, "--addr", s.Addr, "exec", "n", "--", "sh", "-c", "echo ready; read x")
	hold.line("ready")
	r := start(t, "--addr", s.Addr, "--connect-timeout", "300ms", "acquire", "n", "--lease", "90s", "--wait", "1m")
	for !strings.Contains(call(t, "--addr", s.Addr, "waiters", "n").stdout, " acquire") {
		time.Sleep(10 * time.Millisecond)
	}
	s.Signal(syscall.SIGSTOP)
	r.signal(syscall.SIGTERM)
	if code, _ := r.wait(); code != exitSignal+int(syscall.SIGTERM) ||
		!strings.Contains(r.stderr.String(), "its lease of 1m30s has ended") {
		t.Errorf("code %d, stderr %q", code, r.stderr.String())
	}
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
}

func TestNestedExecOfTheSameNameIsRefused(t *testing.T) {
	t.Parallel()
	const script = `"$0" exec nested:b -- sh -c 'echo $LOCKD_NAMES; test $(echo "$LOCKD_FENCES" | wc -l) = 2 && "$0" exec nested:a -- echo ran' "$0"`
	call(t, "exec", "nested:a", "--", "sh", "-c", script, bin).want(t, exitUsage, "nested:b nested:a\n",
		`NESTED: exec "nested:a"`)
}

func TestExecSaysWhoHoldsTheLock(t *testing.T) {
	t.Parallel()
	first := start(t, "exec", "who", "--client-name", "nightly", "--annotation", "back up", "--", "sh", "-c",
		"echo ready; read x")
	first.line("ready")
	second := start(t, "exec", "who", "--", "echo", "ran")
	awaitWaiters(t, "who", 1)
	second.says(`WAITING: for "who"`)
	first.stdin.Close()
	if code, out := second.wait(); code != 0 || out != "ran\n" {
		t.Errorf("code %d, output %q", code, out)
	}
	if text := second.stderr.String(); strings.Count(text, `WAITING: for "who", held by nightly (back up)`) != 1 {
		t.Errorf("stderr %q", text)
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
			h := holderView{partyView: partyView{Session: session}, Origin: "session"}
			return inspectView{lockView: lockView{Name: "n", Held: true}, Holds: []holderView{h}}, nil
		}
		if got := x.holders(t.Context()); got != want {
			t.Errorf("held by session %q: got %q, want %q", session, got, want)
		}
	}
}

func TestExecWaitsForAServerThatIsAway(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	s.Kill()
	r := start(t, "--addr", s.Addr, "exec", "n", "--", "echo", "ran")
	r.says("WAITING: for the server")
	s.Restart()
	if code, out := r.wait(); code != 0 || out != "ran\n" ||
		strings.Count(r.stderr.String(), "WAITING: for the server: UNAVAILABLE") != 1 {
		t.Errorf("code %d, output %q, stderr %q", code, out, r.stderr.String())
	}
	s.Kill()
	begun := time.Now()
	call(t, "--addr", s.Addr, "exec", "n", "--wait", "3s", "--", "echo", "ran").want(t, exitUnavailable, "",
		"UNAVAILABLE: ")
	if d := time.Since(begun); d < 2*time.Second {
		t.Errorf("gave up after %v", d)
	}
}

func TestExecWaitsForAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := harness.StartLockdWith(t, "--redis", redis.Addr)
	redis.Pause()
	r := start(t, "--addr", s.Addr, "exec", "n", "--", "echo", "ran")
	r.says("WAITING: for the server: ")
	redis.Resume()
	if code, out := r.wait(); code != 0 || out != "ran\n" ||
		!strings.Contains(r.stderr.String(), "WAITING: for the server: ") {
		t.Errorf("code %d, output %q, stderr %q", code, out, r.stderr.String())
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
		"store_error",
		"sessions", "locks", "waiters")
	if v["ready"] != true || v["store"] != "memory" || v["sessions"] != 1.0 || v["locks"] != 1.0 {
		t.Errorf("status: %v", v)
	}
	run("drain").want(t, 0, "draining, asked 1 session to move\n", "")
	if r := run("status"); r.code != exitUnavailable || r.stderr != "" {
		t.Errorf("status while draining: %+v", r)
	}
	run("drain", "--undo").want(t, 0, "takes clients again\n", "")
	run("drain", "--undo").want(t, 0, "it was not draining\n", "")
	parse(t, run("version", "-o", "json").stdout, "version", "go")
}
