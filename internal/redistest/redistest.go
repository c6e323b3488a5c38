// Package redistest starts real redis-server processes for tests, each on a free port of the loopback interface and in
// a directory of its own. A test that needs Redis fails without one; nothing is skipped.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/proctest"
)

const (
	// startTries is how often Start looks for another port when somebody was quicker, or when there is none for the
	// bus.
	startTries = 20
	// busOffset is what lies between the port of a node of a cluster and the port of its bus.
	busOffset = 10000
	// readyWithin is how long a server may take until it answers.
	readyWithin = 10 * time.Second
	// stopWithin is how long a server may take to end by itself before it is killed.
	stopWithin = 5 * time.Second
)

// Server is a redis-server that runs for one test.
type Server struct {
	// Addr is "127.0.0.1:<port>"; it stays the same over Restart.
	Addr string

	t        testing.TB
	dir      string
	args     []string
	sentinel bool          // then args are all arguments
	own      *redis.Client // for what is asked here
	client   *redis.Client // the test's own

	mu     sync.Mutex        // guards the fields below
	proc   *proctest.Process // nil before the first start
	paused bool              // by Pause
}

// Start runs a server with further arguments for redis-server, such as "--maxmemory", "3mb", until the test ends.
// It keeps nothing on disk unless the arguments say so.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath(program()); err != nil {
		t.Fatalf("%v: install redis-server 6.2 or newer, or run make test which does", err)
	}
	s := &Server{t: t, dir: t.TempDir(), args: args}
	var bus []int
	if slices.Contains(args, "--cluster-enabled") {
		bus = []int{busOffset}
	}
	s.firstStart(func() { s.Addr = proctest.FreeAddr(t, bus...) })
	return s
}

// firstStart is tryToStart, and makes the client.
func (s *Server) firstStart(prepare func()) {
	s.t.Helper()
	s.tryToStart(prepare)
	s.own, s.client = s.newClient(1), s.newClient(-1) // a test may have cut a connection of the first
	s.t.Cleanup(func() { _, _ = s.own.Close(), s.client.Close() })
}

// tryToStart starts the server, and tries again when somebody else was quicker to take its port.
func (s *Server) tryToStart(prepare func()) {
	s.t.Helper()
	var err error
	for range startTries {
		prepare()
		if err = s.start(); err == nil {
			return
		}
	}
	s.t.Fatalf("redis-server did not start: %v", err)
}

// program is the server that the environment names, which may be another version, or Valkey.
func program() string { return cmp.Or(os.Getenv("TEST_REDIS_SERVER"), "redis-server") }

// start runs the process and waits until it answers.
func (s *Server) start() error {
	args := s.args
	if host, port := s.hostPort(); !s.sentinel {
		args = append([]string{
			"--save", "", "--appendonly", "no", "--bind", host, "--port", port, "--dir", s.dir, "--logfile", s.logFile(),
			"--daemonize", "no",
		}, args...)
	}
	p := proctest.Start(s.t, program(), nil, args...)
	if err := s.awaitReady(p); err != nil {
		p.Kill()
		return errors.Join(err, s.lastWords())
	}
	if err := s.awaitClients(); err != nil {
		p.Kill()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proc, s.paused = p, false
	return nil
}

// awaitClients waits until the clients have heard that the server is back: one that failed to connect as often as its
// pool is large repeats its last error, and looks again once a second.
func (s *Server) awaitClients() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	for _, c := range []*redis.Client{s.own, s.client} {
		for c != nil {
			err := c.Ping(ctx).Err()
			if refused := redis.Error(nil); err == nil || errors.As(err, &refused) {
				break // refused by the server, which loads its data or wants a password
			}
			if ctx.Err() != nil {
				return fmt.Errorf("the clients of redis-server on %s do not reach it: %w", s.Addr, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

func (s *Server) hostPort() (host, port string) {
	host, port, _ = strings.Cut(s.Addr, ":")
	return host, port
}

// awaitReady waits until the server has loaded its data, unless it is slowed down on purpose; an answer from another
// process's server does not count.
func (s *Server) awaitReady(p *proctest.Process) error {
	c := s.newClient(-1)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), readyWithin)
	defer cancel()
	slow := slices.Contains(s.args, "--key-load-delay")
	for {
		info, err := c.Info(ctx).Result()
		ours := infoField(info, "process_id") == fmt.Sprint(p.PID()) && (slow || infoField(info, "loading") != "1")
		if ours || redis.HasErrorPrefix(err, "NOAUTH") {
			return nil
		}
		select {
		case <-p.Exited:
			return errors.New("redis-server ended at once")
		case <-ctx.Done():
			return fmt.Errorf("redis-server on %s does not answer: %w", s.Addr, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// lastWords is the end of the server's log, as an error.
func (s *Server) lastWords() error {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return err
	}
	return errors.New(string(log[max(0, len(log)-500):]))
}

// infoField returns a field of an INFO reply.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// MostlyWaits makes tests of a package run side by side though there are fewer processors, because they wait for
// servers most of the time. Call it in TestMain. The flag -test.parallel overrides it.
func MostlyWaits() { _ = flag.Set("test.parallel", "8") } // the flag is there in each test
