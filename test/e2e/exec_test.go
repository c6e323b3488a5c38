package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// A client that does not let go: its lock is free when its lease ends, and a waiter has it at once.
func TestKilledExecFreesItsLockWhenItsLeaseEnds(t *testing.T) {
	t.Parallel()
	rs, d := oneReplica(t, soonOver)
	p := d.Tool(lockctlBin, "exec", "job", "--", "sleep", "600")
	child := childOf(t, p.PID())
	silenced(t, rs, d, func() { p.Signal(syscall.SIGKILL) })
	harness.Until(t, "the child has ended without the lock", func() bool { return gone(child) })
}

func TestStoppedExecKillsItsChildWhenItContinues(t *testing.T) {
	t.Parallel()
	rs, d := oneReplica(t, soonOver)
	work := filepath.Join(t.TempDir(), "work")
	p := d.Tool(lockctlBin, "exec", "job", "--", "sh", "-c",
		"trap '' TERM; while echo working; do sleep 0.01; done > "+work)
	child := childOf(t, p.PID())
	silenced(t, rs, d, func() { p.Signal(syscall.SIGSTOP) })
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
	rs, d := oneReplica(t, soonOver)
	// With one processor timers come late.
	p := proctest.Command(os.Args[0], []string{heldEnv + "=" + d.Addr, "GOMAXPROCS=1"}, "-test.run=^$")
	answers := make(chan string, 2)
	harness.Must(t, p.Talk(func(line string) { answers <- line }))
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
	silenced(t, rs, d, func() { p.Signal(syscall.SIGSTOP) })
	ask()
	p.Signal(syscall.SIGCONT)
	if got := harness.Soon(t, "an answer", answers); got != "lost" {
		t.Errorf("after the pause its first answer is %q", got)
	}
}

const heldEnv = "LOCKD_E2E_HOLD"

// silenced has the holder of "job" become silent after its first renewal, and waits until a waiter gets the lock.
func silenced(t *testing.T, rs *redistest.Server, d *harness.Lockd, silence func()) {
	t.Helper()
	harness.Until(t, "the lock is held", func() bool { return has(t, rs, "job") })
	granted := queue(t, d.Dial(t), "job")
	time.Sleep(shortly / 2)
	silence()
	if l := harness.Soon(t, "the waiter is granted", granted); l.Err() != nil {
		t.Error(l.Err())
	}
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

// gone says whether a process that need not be ours has ended; one that nobody waited for yet has.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && state[0] == 'Z'
}

// childOf finds the one child of a process.
func childOf(t *testing.T, parent int) (pid int) {
	t.Helper()
	harness.Until(t, "the process has a child", func() bool {
		of, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
		harness.Must(t, err)
		for _, path := range of {
			if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
				pid, _ = strconv.Atoi(strings.Fields(string(text))[0])
			}
		}
		return pid != 0
	})
	return pid
}
