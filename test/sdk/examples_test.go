package sdk

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// TestThePythonExamplesRun runs what users try first, until they press Ctrl-C.
func TestThePythonExamplesRun(t *testing.T) {
	t.Parallel()
	p, server := installPython(t, "newest"), harness.StartLockdOn(t, lockdBin, "LOCKD_STORE_KIND=memory")
	start := func(example string, args ...string) *proctest.Process {
		program, err := filepath.Abs(filepath.Join(root, "examples/python", example))
		harness.Must(t, err)
		_, err = os.ReadFile(program) // so that go test does not take a cached result after a change
		harness.Must(t, err)
		env := []string{"PYTHONPATH=" + p.installed, "PYTHONUNBUFFERED=1", "LOCKD_ADDR=" + server.Addr}
		return proctest.Start(t, p.python, env, append([]string{program}, args...)...)
	}
	says := func(p *proctest.Process, what string) {
		t.Helper()
		harness.Until(t, "it says "+what, func() bool { return strings.Contains(p.Stdout.String(), what) })
	}
	ends := func(p *proctest.Process) {
		t.Helper()
		if code := p.Code(); code != 0 || p.Stderr.String() != "" {
			t.Errorf("it ended with %d: %s", code, p.Stderr.String())
		}
	}
	stop := func(p *proctest.Process) { t.Helper(); p.Signal(syscall.SIGINT); ends(p) }

	holds := start("hold.py", "orders/42")
	says(holds, "working")
	waits := start("hold.py", "orders/42")
	leader := start("lead.py", "ann")
	says(leader, "I lead")
	other := start("lead.py", "bob")
	says(other, "ann leads")
	serves := start("serve.py")
	stop(holds)
	says(waits, "held with fence")
	stop(waits)
	stop(leader)
	says(other, "I lead")
	stop(other)
	ends(serves)
	if n := strings.Count(serves.Stdout.String(), "has a licence"); n != 20 {
		t.Errorf("%d tasks had a licence, want 20", n)
	}
	serves = start("serve.py")
	says(serves, "has a licence")
	stop(serves)
}
