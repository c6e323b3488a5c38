package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// ownerForm is what Redisson writes, too: <uuid>:<holder>.
var ownerForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:.+$`)

func TestExecHoldsItsLockFromItsChildsStartToItsEnd(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	length := tier.Pick(5*time.Second, time.Minute)
	rs := redistest.Start(t)
	rc := rs.Client()
	d := startLockd(t, rs.Addr, "LOCKD_SESSION_TTL="+ttl.String())
	messages := hear(t, rc, "redisson_lock__channel:{job}")

	began := time.Now()
	p := startLockctl(d, "exec", "job", "--", "sleep", strconv.Itoa(int(length.Seconds())))
	child := childOf(t, p.PID())
	for {
		s := look(t, rc, "job")
		if gone(child) { // after the look: s may be from after the end
			break
		}
		if len(s.fields) != 1 || !ownerForm.MatchString(s.owner()) || s.fields[s.owner()] != "1" || s.pttl <= 0 ||
			s.pttl > ttl {
			t.Fatalf("%v after the start: got %v with PTTL %v", s.from.Sub(began), s.fields, s.pttl)
		}
	}
	if ran := time.Since(began); ran < length {
		t.Errorf("the child ran for %v", ran)
	}
	m := harness.Soon(t, "the release is published", messages)
	if p.Code() != 0 || m.text != "0" {
		t.Errorf("got exit code %d and message %q", p.Code(), m.text)
	}
	select {
	case m := <-messages:
		t.Errorf("a second message: %q", m.text)
	case <-time.After(200 * time.Millisecond):
	}
}

// A client that does not let go: its lock is free when its lease ends, and a waiter has it at once.
func TestKilledExecFreesItsLockWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	p := startLockctl(d, "exec", "job", "--", "sleep", "600")
	child := childOf(t, p.PID())
	silenced(t, d, rc, func() { p.Signal(syscall.SIGKILL) })
	if !gone(child) {
		t.Error("the child lives on without the lock")
	}
}

func TestStoppedExecKillsItsChildWhenItContinues(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	work := filepath.Join(t.TempDir(), "work")
	p := startLockctl(d, "exec", "job", "--", "sh", "-c", "trap '' TERM; while echo working; do sleep 0.01; done > "+work)
	child := childOf(t, p.PID())
	silenced(t, d, rc, func() { p.Signal(syscall.SIGSTOP) })
	p.Signal(syscall.SIGCONT)
	if code := p.Code(); code != 70 || !strings.Contains(p.Stderr.String(), "LOCK_LOST") {
		t.Errorf("got exit code %d, %q; want 70 and LOCK_LOST", code, p.Stderr.String())
	}
	if !gone(child) {
		t.Error("the child lives on without the lock")
	}
}

// A process that is stopped past its lease and continues is told so by its first question.
func TestStoppedProcessLearnsOfTheLossFirst(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	// one: timers come late
	p := proctest.Command(os.Args[0], []string{heldEnv + "=" + d.Addr, "GOMAXPROCS=1"}, "-test.run=^$")
	answers := make(chan string, 2)
	if err := p.Talk(func(line string) { answers <- line }); err != nil {
		t.Fatal(err)
	}
	p.Start(t)
	ask := func() {
		if _, err := io.WriteString(p.Stdin, "?\n"); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if got := harness.Soon(t, "an answer", answers); got != "held" {
		t.Fatalf("got %q", got)
	}
	silenced(t, d, rc, func() { p.Signal(syscall.SIGSTOP) })
	ask()
	p.Signal(syscall.SIGCONT)
	if got := harness.Soon(t, "an answer", answers); got != "lost" {
		t.Errorf("after the pause its first answer is %q", got)
	}
}

const (
	heldEnv = "LOCKD_E2E_HOLD"
	shortly = 3 * time.Second // the session TTL of most tests
)

func oneReplica(t *testing.T, env ...string) (*harness.Lockd, *redis.Client) {
	t.Helper()
	rs := redistest.Start(t)
	return startLockd(t, rs.Addr, append([]string{"LOCKD_SESSION_TTL=" + shortly.String()}, env...)...), rs.Client()
}

// silenced has the holder of "job" become silent, and waits until a waiter gets the lock.
func silenced(t *testing.T, d *harness.Lockd, rc *redis.Client, silence func()) {
	t.Helper()
	harness.Until(t, "the lock is held", func() bool { return look(t, rc, "job").owner() != "" })
	c := d.Dial(t)
	granted := make(chan struct{})
	go func() {
		defer close(granted)
		if l, err := c.Lock(t.Context(), "job"); err != nil {
			t.Error(err)
		} else if l.Err() != nil {
			t.Error(l.Err())
		}
	}()
	harness.Until(t, "somebody waits", func() bool { return d.Metric("lockd_waiters") == 1 })
	time.Sleep(shortly / 2) // so that it is renewed once
	silence()
	harness.Soon(t, "the waiter is granted", granted)
}

// holdForParent is a program that holds a lock, and says whether it does for each line it reads.
func holdForParent(addr string) int {
	c, err := client.Dial(addr)
	if err != nil {
		return harness.Failed(err)
	}
	l, err := c.Lock(context.Background(), "job")
	if err != nil {
		return harness.Failed(err)
	}
	ctx := l.Context()
	for s := bufio.NewScanner(os.Stdin); s.Scan(); { // nothing comes between the question and the answer
		if ctx.Err() == nil {
			fmt.Println("held")
		} else {
			fmt.Println("lost")
		}
	}
	return 0
}
