package client_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

func TestRealOptions(t *testing.T) {
	t.Parallel()
	c, other := dial(t, addr, client.WithSessionTTL(2*time.Second)), dial(t, addr)
	auto := mustLock(t, c, "auto")
	fixed := mustLock(t, c, "fixed", client.Lease(3*time.Second))
	outer := mustLock(t, c, "again", client.Holder("job"))
	inner := mustLock(t, c, "again", client.Holder("job"))
	if outer.Fence() != inner.Fence() {
		t.Errorf("fences %d and %d", outer.Fence(), inner.Fence())
	}
	wantError(t, auto.Extend(t.Context(), time.Second), client.ErrAutoLease)
	if err := fixed.Extend(t.Context(), 4*time.Second); err != nil {
		t.Error(err)
	}
	_, err := other.Lock(t.Context(), "auto", client.Wait(300*time.Millisecond))
	wantError(t, err, client.ErrTimedOut)
	_, err = other.TryLock(t.Context(), "auto")
	wantError(t, err, client.ErrHeld)
	<-fixed.Lost()
	time.Sleep(2 * time.Second) // longer than the session TTL: heartbeats and renewals are needed
	if err := auto.Err(); err != nil {
		t.Error(err)
	}
	for _, l := range []*client.Lock{inner, auto} {
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := other.TryLock(t.Context(), "again"); err == nil {
		t.Error("got a lock that is still held once")
	}
	if err := outer.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	mustLock(t, other, "again")
}

func TestRealForcedLossAndWatch(t *testing.T) {
	t.Parallel()
	c := dial(t, addr)
	events, err := c.Watch(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	l := mustLock(t, c, "n")
	conn, err := grpc.NewClient(adminAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = lockdv1.NewAdminServiceClient(conn).ForceRelease(t.Context(), &lockdv1.ForceReleaseRequest{
		Name: "n", By: "alice@laptop", Why: "stuck\x1b[2J since noon",
	})
	if err != nil {
		t.Fatal(err)
	}
	<-l.Lost()
	wantLost(t, l, client.LostForced)
	want := `the lock was lost: "n": forced by "alice@laptop": "stuck\x1b[2J since noon"`
	if got := l.Err().Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if e := <-events; e.Name != "n" {
		t.Errorf("got %+v", e)
	}
}

func TestRealCrashAndRestart(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	c := dial(t, s.Addr)
	l := mustLock(t, c, "n")
	waited := make(chan *client.Lock, 1)
	go func() { waited <- mustLock(t, c, "n") }()
	time.Sleep(50 * time.Millisecond) // so that it waits; if it does not yet, nothing is lost
	s.Restart()
	<-l.Lost()
	wantLost(t, l, client.LostSession)
	if again := <-waited; again.Fence() <= l.Fence() {
		t.Errorf("fence %d after %d", again.Fence(), l.Fence())
	}
}

func TestRealDrain(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	var seen statuses
	c := dial(t, s.Addr, client.WithOnStatus(seen.add), client.WithConnectWait(time.Second))
	l := mustLock(t, c, "n")
	s.Signal(syscall.SIGTERM)
	for !seen.had(client.Draining) {
		time.Sleep(time.Millisecond)
	}
	if err := l.Err(); err != nil {
		t.Errorf("while the server drains: %v", err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-s.Exited:
	case <-time.After(5 * time.Second):
		t.Error("the server still waits, although the session is idle")
	}
	_, err := c.Lock(t.Context(), "n")
	wantError(t, err, client.ErrUnavailable)
}

// A store that is away: the holder hears of the risk, and of the loss at its deadline at the latest.
func TestRealStoreAway(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := harness.StartLockdWith(t, "--redis", redis.Addr)
	var seen statuses
	c := dial(t, s.Addr, client.WithOnStatus(seen.add), client.WithSessionTTL(5*time.Second))
	l := mustLock(t, c, "n")
	redis.Pause()
	defer redis.Resume()
	for !seen.had(client.AtRisk) {
		time.Sleep(time.Millisecond)
	}
	<-l.Lost()
}

// A server that is stopped in the middle, and goes on: calls do not wait for it, and nothing is left behind.
func TestRealStoppedServer(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	opts := []client.Option{client.WithSessionTTL(time.Minute), client.WithAnswerTimeout(300 * time.Millisecond)}
	c, closed, ctx := dial(t, s.Addr, opts...), dial(t, s.Addr, opts...), t.Context()
	l := mustLock(t, c, "held")
	mustLock(t, closed, "closed")
	s.Signal(syscall.SIGSTOP)
	_, tried := c.TryLock(ctx, "tried")
	_, waited := c.Lock(ctx, "waited", client.Wait(100*time.Millisecond))
	for _, err := range []error{tried, waited, l.Unlock(ctx), closed.Close()} {
		wantError(t, err, client.ErrOutcomeUnknown)
	}
	s.Signal(syscall.SIGCONT)
	other := dial(t, s.Addr)
	for _, name := range []string{"held", "tried", "waited", "closed"} {
		mustLock(t, other, name, client.Wait(30*time.Second))
	}
	if err := l.Unlock(ctx); err != nil {
		t.Errorf("Unlock after the server went on: %v", err)
	}
}

// A connection that is there but carries nothing: the deadline decides.
func TestRealCutOff(t *testing.T) {
	t.Parallel()
	p := startPipe(t, addr)
	l := mustLock(t, dial(t, p.addr, client.WithSessionTTL(2*time.Second)), t.Name())
	p.stall()
	again := mustLock(t, dial(t, addr), t.Name())
	if l.Err() == nil || again.Fence() <= l.Fence() {
		t.Errorf("%v, fence %d after %d", l.Err(), again.Fence(), l.Fence())
	}
}

// pipe passes connections on to a server until it is told to pass nothing any more.
type pipe struct {
	addr string
	halt chan struct{}
}

func startPipe(t *testing.T, to string) *pipe {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pipe{addr: lis.Addr().String(), halt: make(chan struct{})}
	var wg sync.WaitGroup
	var conns []net.Conn
	wg.Go(func() {
		for {
			in, err := lis.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			conns = append(conns, in, out)
			wg.Go(func() { p.copy(in, out) })
			wg.Go(func() { p.copy(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		time.Sleep(10 * time.Millisecond)
		for _, c := range conns {
			_ = c.Close()
		}
		wg.Wait()
	})
	return p
}

func (p *pipe) stall() { close(p.halt) }

func (p *pipe) copy(from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-p.halt:
			if err != nil {
				return
			}
			continue // swallowed
		default:
		}
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

const heldEnv = "LOCKD_TEST_HOLD"

// holdForParent is a program that holds a lock: it works for as long as the lock's context lets it.
func holdForParent() int {
	c, err := client.Dial(os.Getenv(heldEnv), client.WithSessionTTL(time.Second))
	if err != nil {
		return 1
	}
	l, err := c.Lock(context.Background(), "stopped")
	if err != nil {
		return 1
	}
	for ctx := l.Context(); ; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			fmt.Println("lost")
			return 0
		}
		fmt.Println("work")
	}
}

// A process that is stopped past its lease and continues finds out before it works on. It may have been stopped
// between asking and acting, so one step is forgiven.
func TestRealStoppedProcess(t *testing.T) {
	t.Parallel()
	out, child, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), heldEnv+"="+addr)
	cmd.Stdout = child
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = child.Close()
	defer func() { _ = cmd.Process.Kill() }()
	r := bufio.NewReader(out)
	for range 10 {
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "work") {
			t.Fatalf("got %q, %v", line, err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	mustLock(t, dial(t, addr), "stopped") // after the lease ran out
	if err := out.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("reading what was written before: %v", err)
	}
	if err := errors.Join(out.SetReadDeadline(time.Time{}), cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r)
	if err != nil || !strings.HasSuffix(string(rest), "lost\n") || strings.Count(string(rest), "work") > 1 {
		t.Errorf("after the pause: %q, %v; want the loss before any work", rest, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
