package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// scripts/topology brings each topology up; one that is broken is seen to be, mended, and goes without a trace.
func TestATopologyIsStartedAndStopped(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		servers int
		flag    string   // how it says to start lockd
		asks    []string // the last server a command, whose answer has the last word
	}{
		"standalone": {1, "--redis", []string{"ping", "PONG"}},
		"redlock":    {5, "--redlock", []string{"config", "get", "appendfsync", "always"}},
		"sentinel":   {6, "--redis sentinel://locks@", []string{"info", "sentinel", "slaves=2,sentinels=3"}},
		"cluster":    {6, "--redis cluster://", []string{"cluster", "info", "cluster_size:3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, dir := freePorts(t), filepath.Join(t.TempDir(), "servers")
			run := func(verb string) (string, error) {
				cmd := exec.Command("../../scripts/topology", verb, name, dir)
				cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", first))
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			says := func(verb, text string) {
				t.Helper()
				if out, err := run(verb); err != nil || !strings.Contains(out, text) {
					t.Fatalf("%s: %v, %s, want it to say %q", verb, err, out, text)
				}
			}
			t.Cleanup(func() { _, _ = run("down") }) // it may have been stopped
			says("up", row.flag)
			says("status", " runs, ")
			if out, _ := run("status"); strings.Count(out, " runs, ") != row.servers {
				t.Errorf("got %s, want %d servers", out, row.servers)
			}
			last, n := strconv.Itoa(first+row.servers-1), len(row.asks)-1
			out, err := exec.Command("redis-cli", append([]string{"-p", last}, row.asks[:n]...)...).CombinedOutput()
			if err != nil || !strings.Contains(string(out), row.asks[n]) {
				t.Errorf("the last server answers %s: %v", out, err)
			}

			text, err := os.ReadFile(filepath.Join(dir, last, "pid"))
			harness.Must(t, err)
			pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
				harness.Must(t, syscall.Kill(pid, sig))
				if out, err := run("status"); err == nil {
					t.Errorf("the status is well after %v: %s", sig, out)
				}
			}
			says("up", row.flag)
			says("down", "")
			if out, err := run("status"); err == nil || strings.Contains(out, " runs, ") {
				t.Errorf("after down: %v, %s", err, out)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("down leaves %s: %v", dir, err)
			}
		})
	}
}

// freePorts is the first of six free ports. Each has a port for a node of a cluster 10000 higher.
func freePorts(t *testing.T) (first int) {
	t.Helper()
	also := []int{1, 2, 3, 4, 5}
	for i := range 6 {
		also = append(also, 10000+i)
	}
	_, port, _ := strings.Cut(proctest.FreeAddr(t, also...), ":")
	first, _ = strconv.Atoi(port)
	return first
}
