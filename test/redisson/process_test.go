package redisson

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lockdtest"
	"github.com/lockd-io/lockd/internal/proctest"
)

// process is a program that was started.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr proctest.Buffer
	exited <-chan struct{} // closed when it ended
}

// lines calls a function with each whole line that is written to it.
type lines struct {
	each func(string)
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.each(string(line))
		l.rest = rest
	}
}

// launch starts a program with some variables more; each is called with what it writes to stdout. Variables of ours
// that were set outside do not count.
func launch(each func(line string), env []string, bin string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(bin, args...)}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "LOCKD_") {
			p.cmd.Env = append(p.cmd.Env, v)
		}
	}
	p.cmd.Env = append(p.cmd.Env, env...)
	p.cmd.Stdout, p.cmd.Stderr = &lines{each: each}, &p.stderr
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.exited, err = proctest.Spawn(p.cmd)
	return p, err
}

// kill ends the process at once, as a crash does, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may be gone already
	<-p.exited
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// lockd is a server.
type lockd struct {
	*process
	addr  string // where clients connect
	admin string // where operators connect
}

// startLockd runs a server on a free port before a Redis until the test ends.
func startLockd(t *testing.T, redis string, ttl time.Duration) *lockd {
	t.Helper()
	bin, err := lockdtest.Build("lockd")
	if err != nil {
		t.Fatal(err)
	}
	p, err := launch(func(string) {}, []string{
		"LOCKD_LISTEN=127.0.0.1:0", "LOCKD_OPS_LISTEN=127.0.0.1:0", "LOCKD_ADMIN_LISTEN=127.0.0.1:0", "LOCKD_LOG_FORMAT=json",
		"LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR=" + redis, "LOCKD_SESSION_TTL=" + ttl.String(),
	}, bin)
	if err != nil {
		t.Fatal(err)
	}
	d := &lockd{process: p}
	t.Cleanup(d.end(t))
	within(t, patience, "lockd serves", func() bool {
		select {
		case <-d.exited:
			t.Fatal("lockd ended at once")
		default:
		}
		d.addr, d.admin = listening(d.stderr.String())
		return d.addr != ""
	})
	return d
}

func (d *lockd) end(t *testing.T) func() {
	return func() {
		d.kill()
		if log := d.stderr.String(); strings.Contains(log, "\npanic: ") {
			t.Errorf("lockd: %s", log)
		} else if t.Failed() {
			t.Logf("the end of what lockd said: %s", log[max(0, len(log)-4000):])
		}
	}
}

// listening finds in a log of lockd where it listens.
func listening(log string) (addr, admin string) {
	for line := range strings.Lines(log) {
		var v struct {
			Msg, Listen string
			Admin       string `json:"admin_listen"`
		}
		if json.Unmarshal([]byte(line), &v) == nil && v.Msg == "lockd serves" {
			return v.Listen, v.Admin
		}
	}
	return "", ""
}
