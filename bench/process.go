package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// process is a server that lives as long as the benchmark.
type process struct {
	addr    string
	ops     string // of a lockd: where its metrics are
	cmd     *exec.Cmd
	exited  chan struct{}
	cleanup func()
}

// launch starts a command that the kernel kills when we die. The signal is bound to the thread that forks, so a
// goroutine holds that thread until the command ends.
func launch(cmd *exec.Cmd, cleanup func()) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	p := &process{cmd: cmd, exited: make(chan struct{}), cleanup: cleanup}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.exited)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended does not matter
		}
	}()
	if err := <-started; err != nil {
		cleanup()
		return nil, err
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	p.cleanup()
}

// stop ends the process, by force if it takes long.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second):
		p.kill()
		return
	}
	p.cleanup()
}

// startRedis starts a server that keeps nothing on disk, with further arguments.
func startRedis(ctx context.Context, args ...string) (*process, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errors.New("redis-server is not in PATH: install Redis 6.2 or newer")
	}
	dir, err := os.MkdirTemp("", "lockd-bench-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	all := append([]string{
		"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir, "--daemonize", "no",
		"--loglevel", "warning",
	}, args...)
	cmd := exec.Command("redis-server", all...)
	p, err := launch(cmd, func() { _ = os.RemoveAll(dir) })
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	p.addr = net.JoinHostPort("127.0.0.1", port)
	if err := awaitRedis(ctx, p); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func awaitRedis(ctx context.Context, p *process) error {
	c := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: 100})
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := c.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis-server does not answer: %w", err)
	}
	return nil
}

// program is lockd, built from the code beside this module.
type program struct{ path, dir string }

func buildLockd(ctx context.Context) (*program, error) {
	dir, err := os.MkdirTemp("", "lockd-bench-")
	if err != nil {
		return nil, err
	}
	p := &program{path: filepath.Join(dir, "lockd"), dir: dir}
	build := exec.CommandContext(ctx, "go", "build", "-o", p.path, "./cmd/lockd")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		p.remove()
		return nil, fmt.Errorf("build lockd: %w\n%s", err, out)
	}
	return p, nil
}

func (p *program) remove() { _ = os.RemoveAll(p.dir) }

// start starts a replica on free ports with the given Redis. Settings are variables such as LOCKD_SESSION_TTL=30s.
func (p *program) start(redisAddr string, settings ...string) (*process, error) {
	return p.launch([]string{"--redis", redisAddr}, settings...)
}

// withLockd does something with a lockd that is built for it, within a time.
func withLockd(within time.Duration, do func(context.Context, *program) error) error {
	ctx, stop := bounded(within)
	defer stop()
	lockd, err := buildLockd(ctx)
	if err != nil {
		return err
	}
	defer lockd.remove()
	return do(ctx, lockd)
}

// withServers does something with a Redis of its own, too.
func withServers(within time.Duration, do func(context.Context, *process, *program) error) error {
	return withLockd(within, func(ctx context.Context, lockd *program) error {
		redis, err := startRedis(ctx)
		if err != nil {
			return err
		}
		defer redis.kill()
		return do(ctx, redis, lockd)
	})
}

// launch is start for any topology: where are its flags.
func (p *program) launch(where []string, settings ...string) (*process, error) {
	all := append([]string{
		"--listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0", "--admin-listen", "", "--log-format",
		"json",
	}, where...)
	cmd := exec.Command(p.path, all...)
	cmd.Env = append(os.Environ(), settings...)
	log, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	lockd, err := launch(cmd, func() {})
	if err != nil {
		return nil, fmt.Errorf("start lockd: %w", err)
	}
	if lockd.addr, lockd.ops, err = addressesIn(log); err != nil {
		lockd.stop()
		return nil, err
	}
	return lockd, nil
}

// addressesIn finds in a log where lockd listens. The rest of the log goes to stderr if it is a warning or worse.
func addressesIn(log io.Reader) (clients, ops string, err error) {
	type line struct {
		Level, Msg, Listen string
		Ops                string `json:"ops_listen"`
	}
	lines := bufio.NewScanner(log)
	var seen strings.Builder
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Listen != "" {
			go func() {
				for lines.Scan() {
					if json.Unmarshal(lines.Bytes(), &l) != nil || l.Level != "info" {
						fmt.Fprintln(os.Stderr, lines.Text())
					}
				}
			}()
			return l.Listen, l.Ops, nil
		}
		seen.WriteString(lines.Text() + "\n")
	}
	return "", "", fmt.Errorf("lockd did not start:\n%s", seen.String())
}
