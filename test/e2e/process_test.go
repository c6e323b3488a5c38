package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
)

// process is a program that runs for one test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout proctest.Buffer
	stderr proctest.Buffer
	exited <-chan struct{} // closed when it ended
}

// start runs a program with some variables until the test ends. Variables of ours that were set outside do not count.
func start(t *testing.T, bin string, env []string, args ...string) *process {
	t.Helper()
	p := prepare(t, bin, env, args...)
	p.launch()
	return p
}

// prepare is start without starting.
func prepare(t *testing.T, bin string, env []string, args ...string) *process {
	t.Helper()
	if err := readSources(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(bin, args...)}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LOCKD_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	// The race detector would hold up each exit by a second.
	p.cmd.Env = append(append(p.cmd.Env, "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	p.cmd.WaitDelay = time.Second // for what a killed process leaves behind
	return p
}

func (p *process) launch() {
	p.t.Helper()
	var err error
	if p.exited, err = proctest.Spawn(p.cmd); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(p.end)
}

// end kills what still runs and looks for reports of the race detector.
func (p *process) end() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.exited
	log := p.stderr.String()
	if strings.Contains(log, "DATA RACE") || strings.Contains(log, "\npanic: ") {
		p.t.Errorf("%s:\n%s", p.cmd.Path, log)
	} else if p.t.Failed() {
		p.t.Logf("the end of what %q said: %s", p.cmd.Args, log[max(0, len(log)-4000):])
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %v to %s: %v", sig, p.cmd.Path, err)
	}
}

// code waits for the end and returns the exit code, -1 if a signal ended the process.
func (p *process) code() int {
	p.t.Helper()
	soon(p.t, "the end of "+p.cmd.String(), p.exited)
	return p.cmd.ProcessState.ExitCode()
}

// lockd is a server.
type lockd struct {
	*process
	addr  string // where clients connect
	ops   string // where metrics and probes are
	admin string // where operators connect
}

// startLockd runs a server on free ports before a Redis, with further variables such as "LOCKD_SESSION_TTL=3s".
func startLockd(t *testing.T, redis string, env ...string) *lockd {
	t.Helper()
	return startServer(t, lockdBin, redis, env...)
}

// startServer is startLockd with another program.
func startServer(t *testing.T, bin, redis string, env ...string) *lockd {
	t.Helper()
	env = append([]string{
		"LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0", "LOCKD_LOG_FORMAT=json",
		"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + redis,
	}, env...)
	d := &lockd{process: start(t, bin, env)}
	until(t, "lockd serves", func() bool {
		select {
		case <-d.exited:
			t.Fatalf("lockd ended at once: %s", d.stderr.String())
		default:
		}
		line := d.logged("lockd serves")
		d.addr, _ = line["listen"].(string)
		d.ops, _ = line["ops_listen"].(string)
		d.admin, _ = line["admin_listen"].(string)
		return d.addr != ""
	})
	until(t, "lockd is ready", func() bool { code, _ := d.get("/readyz"); return code == 200 })
	return d
}

// logged is the first line of the log with this message, nil if there is none.
func (d *lockd) logged(message string) map[string]any {
	for line := range strings.Lines(d.stderr.String()) {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) == nil && v["msg"] == message {
			return v
		}
	}
	return nil
}

// lockctl runs the tool to its end.
func (d *lockd) lockctl(args ...string) *process {
	d.t.Helper()
	p := d.startLockctl(args...)
	soon(d.t, "the end of lockctl", p.exited)
	return p
}

func (d *lockd) startLockctl(args ...string) *process {
	d.t.Helper()
	return start(d.t, lockctlBin, []string{"LOCKD_ADDR=" + d.addr, "LOCKD_ADMIN_ADDR=" + d.admin}, args...)
}

// gone says whether a process that need not be ours has ended; one that nobody waited for yet has.
func gone(pid int) bool {
	stat, err := os.ReadFile(procFile(pid, "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && state[0] == 'Z'
}
