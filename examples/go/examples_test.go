package examples

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// addr is a real server with its leases in memory.
var addr string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(harness.Run(m, harness.WithLockd(func(d *harness.Lockd) error {
		addr = d.Addr
		return nil
	})))
}

// start runs an example.
func start(t *testing.T, bin, example string) *proctest.Process {
	t.Helper()
	return proctest.Start(t, filepath.Join(bin, example), []string{"LOCKD_ADDR=" + addr})
}

// says waits until a program has said something.
func says(t *testing.T, p *proctest.Process, what string) {
	t.Helper()
	harness.Until(t, "it says "+what, func() bool { return strings.Contains(p.Stdout.String(), what) })
}

func TestTheExamplesRun(t *testing.T) {
	t.Parallel()
	bin := t.TempDir() + "/"
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	held, err := harness.Dial(t, addr).Lock(t.Context(), "invoice:4711")
	harness.Must(t, err)
	locks, waits := start(t, bin, "lock"), start(t, bin, "lock")
	says(t, locks, "waiting")
	says(t, waits, "waiting")
	waits.Signal(syscall.SIGINT)
	if waits.Code() != 0 || waits.Stderr.String() != "" {
		t.Error(waits.Stderr.String())
	}
	harness.Must(t, held.Unlock(t.Context()))
	says(t, locks, "step 4")
	if locks.Code() != 0 {
		t.Error(locks.Stderr.String())
	}

	leader := start(t, bin, "election")
	says(t, leader, "leading with fence")
	other := start(t, bin, "election")
	says(t, other, "the leader is pid")
	leader.Signal(syscall.SIGINT)
	says(t, other, "leading with fence")
	if leader.Code() != 0 {
		t.Error(leader.Stderr.String())
	}
}
