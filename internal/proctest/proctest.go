// Package proctest runs programs as processes of a test. All processes of tests are started here. They end with the
// test program at the latest.
package proctest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds how long a process may take to end, or to stand still.
const patience = time.Minute

// Process is a program of its own.
type Process struct {
	// Stdin is nil unless Talk was called; then Stdout stays empty.
	Stdin          io.WriteCloser
	Stdout, Stderr Buffer
	// Exited is closed when the process has ended.
	Exited <-chan struct{}

	t   testing.TB // nil if it belongs to no test
	cmd *exec.Cmd
}

// Command is a process that was not started yet. It has the variables env, and those of the test program but for
// lockd's and tracing's.
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

// In makes the process run in a directory. Call it before the start.
func (p *Process) In(dir string) *Process { p.cmd.Dir = dir; return p }

// Talk makes Stdin, and calls hear with each whole line from stdout. Call it before the start.
func (p *Process) Talk(hear func(line string)) (err error) {
	p.cmd.Stdout = &lines{hear: hear}
	p.Stdin, err = p.cmd.StdinPipe()
	return err
}

// Launch starts the process, in a process group of its own. The caller kills it. If the test program ends before, the
// kernel kills it: it does so when the thread ends that forked, so that thread waits for the process.
func (p *Process) Launch() error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	exited, started := make(chan struct{}), make(chan error, 1)
	p.Exited = exited
	go func() {
		runtime.LockOSThread() // never unlocked while the process runs
		defer runtime.UnlockOSThread()
		defer close(exited)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is the test's business
		}
	}()
	return <-started
}

// Start runs a program until the test ends.
func Start(t testing.TB, bin string, env []string, args ...string) *Process {
	t.Helper()
	p := Command(bin, env, args...)
	p.Start(t)
	return p
}

// Start runs the process until the test ends. The test fails if the process panicked, or had a data race.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	p.t = t
	if err := p.Launch(); err != nil {
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

// Kill ends the process at once, as a crash does, and waits until it is gone. It may be gone already.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.Exited
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to a process of a test. After SIGSTOP it returns when all threads stand still: one that still
// runs may answer.
func (p *Process) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("signal %v to %s: %v", sig, p.cmd.Path, err)
	}
	for end := time.Now().Add(patience); sig == syscall.SIGSTOP && !p.stopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.t.Fatalf("%s does not stop", p.cmd.Path)
		}
	}
}

// stopped says whether all threads are in state T, and true where /proc does not tell.
func (p *Process) stopped() bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID())) // the pattern is well-formed
	for _, stat := range stats {
		line, err := os.ReadFile(stat) // PID (NAME) STATE ...
		if _, state, _ := bytes.Cut(line, []byte(") ")); err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.Exited:
		return true
	default:
		return false
	}
}

// Code waits for the end of a process of a test and returns the exit code, -1 if a signal ended it.
func (p *Process) Code() int {
	p.t.Helper()
	select {
	case <-p.Exited:
	case <-time.After(patience):
		p.t.Fatalf("it does not end: %s", p.cmd)
	}
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

// Buffer is what a process has written so far. It may be read while the process writes.
type Buffer struct {
	mu   sync.Mutex // guards the field below
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is all that was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
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
