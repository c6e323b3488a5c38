// Package proctest runs programs as processes of a test.
package proctest

import (
	"bytes"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

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

// Spawn starts a command in a process group of its own and returns a channel that is closed when it has ended. The
// kernel kills it when we end: that is bound to the thread that forks, which therefore waits for it.
func Spawn(cmd *exec.Cmd) (exited <-chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	ended, started := make(chan struct{}), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked while the process runs
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is the test's business
		}
	}()
	return ended, <-started
}
