package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
)

// Process is a program of its own. It ends when we end, at the latest.
type Process struct {
	// Stdin is there if Talk was called; then what comes from stdout is not in Stdout.
	Stdin          io.WriteCloser
	Stdout, Stderr proctest.Buffer
	// Exited is closed when the process has ended.
	Exited <-chan struct{}

	t   testing.TB // nil if it belongs to no test
	cmd *exec.Cmd
}

// Command is a process that was not started yet, with some variables. Variables of ours, and of tracing, that were set
// outside do not count.
func Command(bin string, env []string, args ...string) *Process {
	p := &Process{cmd: exec.Command(bin, args...)}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LOCKD_") && !strings.HasPrefix(v, "OTEL_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	// The race detector would hold up each exit by a second.
	p.cmd.Env = append(append(p.cmd.Env, "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.Stdout, &p.Stderr
	p.cmd.WaitDelay = time.Second // for what a killed process leaves behind
	return p
}

// Talk makes Stdin, and calls a function with each whole line from stdout. It is called before the start.
func (p *Process) Talk(hear func(line string)) (err error) {
	p.cmd.Stdout = &lines{hear: hear}
	p.Stdin, err = p.cmd.StdinPipe()
	return err
}

// Launch starts the process. The caller kills it.
func (p *Process) Launch() (err error) {
	p.Exited, err = proctest.Spawn(p.cmd)
	return err
}

// Start runs a program until the test ends.
func Start(t testing.TB, bin string, env []string, args ...string) *Process {
	t.Helper()
	p := Command(bin, env, args...)
	p.Start(t)
	return p
}

// Start runs the process until the test ends. The test fails if it then turns out that it panicked, or raced.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	p.t = t
	err := readSources()
	if err == nil {
		err = p.Launch()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		log := p.Stderr.String()
		if strings.Contains(log, "DATA RACE") || strings.Contains(log, "\npanic: ") {
			t.Errorf("%s:\n%s", p.cmd.Path, log)
		} else if t.Failed() {
			t.Logf("the end of what %q said: %s", p.cmd.Args, log[max(0, len(log)-4000):])
		}
	})
}

// readSources looks at the sources of the programs, once. go test repeats a cached result unless what the tests
// themselves looked at has changed, and what go build looks at does not count.
var readSources = sync.OnceValue(func() error {
	var errs []error
	look := func(_ string, _ fs.DirEntry, err error) error { return err }
	for _, dir := range []string{"api/gen/go", "client", "cmd", "internal"} {
		errs = append(errs, filepath.WalkDir(filepath.Join("..", "..", dir), look))
	}
	return errors.Join(errs...)
})

// Kill ends the process at once, as a crash does, and waits until it is gone. It may be gone already.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Exited
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to a process of a test.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %v to %s: %v", sig, p.cmd.Path, err)
	}
}

// Code waits for the end of a process of a test and returns the exit code, -1 if a signal ended it.
func (p *Process) Code() int {
	p.t.Helper()
	Soon(p.t, "the end of "+p.cmd.String(), p.Exited)
	return p.cmd.ProcessState.ExitCode()
}

// Want checks how a process of a test ends.
func (p *Process) Want(code int, stdout string) {
	p.t.Helper()
	if p.Code() != code || p.Stdout.String() != stdout {
		p.t.Errorf("%q: code %d, %q, %q; want %d, %q",
			p.cmd.Args[1:], p.Code(), p.Stdout.String(), p.Stderr.String(), code, stdout)
	}
}

// JSON is what a process of a test wrote, if it ends well.
func (p *Process) JSON() (v map[string]any) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.Stdout.String()), &v); err != nil || p.Code() != 0 {
		p.t.Fatalf("%q: code %d, %q, %q: %v", p.cmd.Args[1:], p.Code(), p.Stdout.String(), p.Stderr.String(), err)
	}
	return v
}

// lines calls a function with each whole line that is written to it.
type lines struct {
	hear func(string)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.hear(string(line))
		l.rest = rest
	}
}
