package stubs

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// sessionTTL is short, so that a program without heartbeats is found out, and long enough for a cold JVM on a busy
// machine: a program counts from when it begins to send its Open.
const sessionTTL = 9 * time.Second

// A program takes a lock from the lockd at an address, says so, and releases it at the end of a line.
type program func(addr, name string) *proctest.Process

// keepsToTheProtocol has a program wait for a lock, hold it for longer than the session TTL, and release it; and
// tell when it is cut off from lockd, and when lockd is gone.
func keepsToTheProtocol(t *testing.T, p program) {
	t.Helper()
	t.Run("waits, holds and releases", func(t *testing.T) {
		t.Parallel()
		holdsWhatItSays(t, p)
	})
	for how, cutOff := range map[string]func(*harness.Lockd){
		"lockd is silent": func(s *harness.Lockd) { s.Signal(syscall.SIGSTOP) }, // it counts by itself
		"lockd is gone":   func(s *harness.Lockd) { s.Kill() },
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server := start(t)
			run := begin(t, p(server.Addr, "door"))
			run.says(t, "locked ")
			cutOff(server)
			run.says(t, "not locked")
			if run.Code() == 0 {
				t.Error("the program lost its lock, and ended as if all were well")
			}
		})
	}
}

func start(t *testing.T) *harness.Lockd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lockd.yaml")
	harness.Must(t, os.WriteFile(file, []byte("session:\n  ttl: "+sessionTTL.String()+"\n"), 0o600))
	return harness.StartLockdWith(t, "--config", file)
}

func holdsWhatItSays(t *testing.T, p program) {
	t.Helper()
	server := start(t)
	c := server.Dial(t)
	mine, err := c.Lock(t.Context(), "door")
	harness.Must(t, err)
	run := begin(t, p(server.Addr, "door"))
	run.awaitsIts(t, c)
	if err := mine.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	run.says(t, "locked ")
	time.Sleep(sessionTTL + sessionTTL/8) // without heartbeats it would be over
	if !held(t, c) {
		t.Error("the program says that it has the lock, and somebody else got it")
	}
	_, err = io.WriteString(run.Stdin, "\n")
	harness.Must(t, err)
	run.says(t, "released")
	if held(t, c) {
		t.Error("the program says that it released the lock, and it is held")
	}
	if code := run.Code(); code != 0 {
		t.Errorf("the program ended with %d", code)
	}
}

// running is a program that runs.
type running struct {
	*proctest.Process
	lines chan string
}

// begin starts a program, which must not complain on standard error.
func begin(t *testing.T, p *proctest.Process) *running {
	t.Helper()
	r := &running{Process: p, lines: make(chan string, 100)} // nobody says so much
	harness.Must(t, p.Talk(func(line string) { r.lines <- line }))
	p.Start(t)
	t.Cleanup(func() {
		p.Kill() // it has ended, unless the test failed
		if text := p.Stderr.String(); text != "" {
			t.Errorf("the program complained: %s", text)
		}
	})
	return r
}

// says reads a line.
func (r *running) says(t *testing.T, want string) {
	t.Helper()
	if line := harness.Soon(t, "the program says "+want, r.lines); !strings.HasPrefix(line, want) {
		t.Fatalf("the program said %q, want %q", line, want)
	}
}

// awaitsIts waits until the program waits for the lock "door", and says nothing.
func (r *running) awaitsIts(t *testing.T, c *client.Client) {
	t.Helper()
	harness.Until(t, "the program waits", func() bool {
		info, err := c.Look(t.Context(), "door")
		if err != nil || len(r.lines) > 0 {
			t.Fatalf("the program should wait: %+v, %v, %s", info, err, r.Stderr.String())
		}
		return info.Waiters == 1
	})
}

// held says whether somebody has the lock.
func held(t *testing.T, c *client.Client) bool {
	t.Helper()
	info, err := c.Look(t.Context(), "door")
	harness.Must(t, err)
	return info.Held
}
