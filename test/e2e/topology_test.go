package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/test/harness"
)

// topology runs scripts/topology for one name.
type topology struct {
	name, dir string
	port      int // the first one
}

// TestATopologyIsStartedAndStopped has each topology come up, be seen to be broken, be mended, and go.
func TestATopologyIsStartedAndStopped(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		servers int
		flag    string
		says    map[int][]string // by server: a command, and what its answer contains
	}{
		"standalone": {1, "--redis", map[int][]string{0: {"ping", "PONG"}}},
		"redlock":    {5, "--redlock", map[int][]string{4: {"config get appendfsync", "always"}}},
		"sentinel": {6, "--redis-sentinel locks@", map[int][]string{
			0: {"info replication", "connected_slaves:2"}, 5: {"info sentinel", "slaves=2,sentinels=3"},
		}},
		"cluster": {6, "--redis-cluster", map[int][]string{5: {"cluster info", "cluster_size:3"}}},
	}
	for i, name := range slices.Sorted(maps.Keys(tests)) {
		expect := tests[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := topology{name: name, dir: filepath.Join(t.TempDir(), "servers"), port: freePorts(t, i)}
			t.Cleanup(func() { _, _ = top.run("down") }) // it may have been stopped
			wantSaid(t, top, "up", expect.flag)
			if got := strings.Count(wantSaid(t, top, "status", ""), " runs, "); got != expect.servers {
				t.Errorf("%d servers run, want %d", got, expect.servers)
			}
			for i, says := range expect.says {
				if got := top.ask(t, i, says[0]); !strings.Contains(got, says[1]) {
					t.Errorf("server %d answers %s with %q, want %q", i, says[0], got, says[1])
				}
			}

			top.signal(t, expect.servers-1, syscall.SIGSTOP)
			begun := time.Now()
			if out, err := top.run("status"); err == nil || time.Since(begun) > 20*time.Second {
				t.Errorf("the status with a paused server comes after %v: %v, %s", time.Since(begun), err, out)
			}
			top.signal(t, expect.servers-1, syscall.SIGCONT)

			top.kill(t, expect.servers-1)
			if out, err := top.run("status"); err == nil {
				t.Errorf("the status is well without a server: %s", out)
			}
			wantSaid(t, top, "up", expect.flag)
			wantSaid(t, top, "status", "")

			wantSaid(t, top, "down", "")
			if out, err := top.run("status"); err == nil || strings.Contains(out, " runs, ") {
				t.Errorf("after down: %v, %s", err, out)
			}
			if _, err := os.Stat(top.dir); !os.IsNotExist(err) {
				t.Errorf("down leaves %s: %v", top.dir, err)
			}
		})
	}
}

// freePorts is the first of six free ports in a range of each test's own. The system gives out higher ports by itself.
// Each has a port for a node of a cluster 10000 higher.
func freePorts(t *testing.T, test int) int {
	t.Helper()
	for range 100 {
		first, free := 20000+6*(test*100+rand.IntN(100)), true
		for i := range 6 {
			for _, port := range []int{first + i, first + i + 10000} {
				l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
				if err != nil {
					free = false
					continue
				}
				_ = l.Close() // it was free
			}
		}
		if free {
			return first
		}
	}
	t.Fatal("there are no free ports")
	return 0
}

func (top topology) run(verb string) (string, error) {
	cmd := exec.Command("../../scripts/topology", verb, top.name, top.dir)
	cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", top.port))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// wantSaid runs a command that succeeds and says something.
func wantSaid(t *testing.T, top topology, verb, text string) string {
	t.Helper()
	out, err := top.run(verb)
	if err != nil || !strings.Contains(out, text) {
		t.Fatalf("%s %s: %v, %s, want it to say %q", verb, top.name, err, out, text)
	}
	return out
}

// ask is what the server I answers.
func (top topology) ask(t *testing.T, i int, command string) string {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", top.port+i), Protocol: 2, DisableIdentity: true})
	defer c.Close()
	var args []any
	for word := range strings.FieldsSeq(command) {
		args = append(args, word)
	}
	answer, err := c.Do(t.Context(), args...).Result()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return fmt.Sprint(answer)
}

// kill ends the server I at once.
func (top topology) kill(t *testing.T, i int) {
	t.Helper()
	pid := top.signal(t, i, syscall.SIGKILL)
	harness.Until(t, "it is gone", func() bool { return syscall.Kill(pid, 0) != nil })
}

// signal sends a signal to the server I, and returns its pid.
func (top topology) signal(t *testing.T, i int, sig syscall.Signal) (pid int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top.dir, strconv.Itoa(top.port+i), "pid"))
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
	return pid
}
