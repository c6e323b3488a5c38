package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Where a replica listens, from its first port on.
const (
	opsPort     = 1
	adminPort   = 2
	consolePort = 3
	httpPort    = 4
)

// replica is a lockd that is started again when it dies.
type replica struct {
	program, redis string
	number, port   int

	mu  sync.Mutex
	cmd *exec.Cmd
}

func (r *replica) address(offset int) string { return fmt.Sprintf("127.0.0.1:%d", r.port+offset) }

// keep runs the replica until ctx ends, and then stops it with SIGTERM.
func (r *replica) keep(ctx context.Context) {
	args := []string{
		"--listen", r.address(0), "--ops-listen", r.address(opsPort), "--admin-listen", r.address(adminPort),
		"--console-listen", r.address(consolePort), "--http-listen", r.address(httpPort), "--log-level", "warn",
	}
	if r.redis != "" {
		args = append(args, "--redis", r.redis)
	}
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, r.program, args...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.Env = append(os.Environ(), fmt.Sprintf("LOCKD_REPLICA=lockd-%d", r.number))
		cmd.Stderr = os.Stderr
		apart(cmd)
		if err := cmd.Start(); err != nil {
			log.Print(err)
		} else {
			r.started(cmd)
			_ = cmd.Wait()
		}
		pause(ctx, 5*time.Second)
	}
}

func (r *replica) started(cmd *exec.Cmd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cmd = cmd
}

func (r *replica) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd != nil {
		_ = r.cmd.Process.Kill()
	}
}

// killSometimes kills one replica after the other.
func killSometimes(ctx context.Context, replicas []*replica) {
	for i := 0; pause(ctx, time.Minute); i++ {
		r := replicas[i%len(replicas)]
		log.Printf("lockd-%d is killed: its clients go on at the others", r.number)
		r.kill()
	}
}

// apart protects a process from the terminal's signals.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// pause says whether the time passed before ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
