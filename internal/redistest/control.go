package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/proctest"
)

// Client is the test's own client, closed when the test ends. It is the same one each time.
func (s *Server) Client() *redis.Client { return s.client }

// newClient makes a client that gives up soon. -1 is no retry.
func (s *Server) newClient(retries int) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.Addr, Protocol: 2, MaxRetries: retries, DialerRetries: 1, DisableIdentity: true, PoolSize: 20,
		DialTimeout: 2 * time.Second, ReadTimeout: 5 * time.Second,
	})
}

// Stop ends the server in good order, as an operator does; data is saved if it is configured to be.
func (s *Server) Stop() {
	s.t.Helper()
	p := s.running()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Exited:
	case <-time.After(stopWithin):
		p.Kill()
		s.t.Errorf("redis-server did not end within %v", stopWithin)
	}
}

// Kill ends the server at once, as a power cut does. It may be called when none runs.
func (s *Server) Kill() { s.process().Kill() }

// Pause freezes the server: connections stay, nothing is answered.
func (s *Server) Pause() { s.t.Helper(); s.setPaused(true); s.running().Signal(syscall.SIGSTOP) }

// Resume ends a Pause. What was sent in between is executed now.
func (s *Server) Resume() { s.t.Helper(); s.running().Signal(syscall.SIGCONT); s.setPaused(false) }

// Restart starts the server again on the same port, after Stop or Kill or instead of them, with the data it wrote to
// its disk, if any.
func (s *Server) Restart() { s.t.Helper(); s.tryToStart(s.Kill) }

// RestartEmpty is Restart without the data.
func (s *Server) RestartEmpty() {
	s.t.Helper()
	s.Kill()
	for _, pattern := range []string{"*.rdb", "appendonlydir", "*.aof"} {
		found, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil {
			s.t.Fatal(err)
		}
		for _, f := range found {
			if err := os.RemoveAll(f); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.Restart()
}

// ScriptCalls is how many scripts the server was asked to run so far, by EVALSHA or EVAL and whether or not it knew
// them.
func (s *Server) ScriptCalls() int { s.t.Helper(); return s.Calls("evalsha") + s.Calls("eval") }

// Calls is how many times a command was executed so far, inside scripts or not.
func (s *Server) Calls(command string) int {
	s.t.Helper()
	info, err := s.own.Info(context.Background(), "commandstats").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	var n int
	if stats := infoField(info, "cmdstat_"+command); stats != "" {
		if _, err := fmt.Sscanf(stats, "calls=%d,", &n); err != nil {
			s.t.Fatalf("commandstats of %s: %q: %v", command, stats, err)
		}
	}
	return n
}

// running is the process, or the end of the test.
func (s *Server) running() *proctest.Process {
	s.t.Helper()
	p := s.process()
	if p.Ended() {
		s.t.Fatal("the redis-server of this test does not run")
	}
	return p
}

func (s *Server) process() *proctest.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Replicated waits until so many replicas have what the server has. WAIT is of no use for that: in Valkey it is about
// what was written over its own connection, and in Redis about what any wrote.
func (s *Server) Replicated(replicas int) {
	s.t.Helper()
	written, _ := s.replication()
	await(s.t, fmt.Sprintf("%d replicas have what %s has", replicas, s.Addr), func() error {
		_, has := s.replication()
		has = slices.DeleteFunc(has, func(offset int) bool { return offset < written })
		if len(has) < replicas {
			return fmt.Errorf("%d have it", len(has))
		}
		return nil
	})
}

var (
	ownOffset     = regexp.MustCompile(`master_repl_offset:(\d+)`)
	replicaOffset = regexp.MustCompile(`slave\d+:.*offset=(\d+)`)
)

// replication is how much was written, and how much of it each replica has acknowledged, in bytes.
func (s *Server) replication() (written int, acknowledged []int) {
	text := s.own.Info(context.Background(), "replication").Val()
	for _, found := range replicaOffset.FindAllStringSubmatch(text, -1) {
		offset, _ := strconv.Atoi(found[1])
		acknowledged = append(acknowledged, offset)
	}
	if own := ownOffset.FindStringSubmatch(text); own != nil {
		written, _ = strconv.Atoi(own[1])
	}
	return written, acknowledged
}

// Answers says that the server runs and is not paused.
func (s *Server) Answers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.proc.Ended() && !s.paused
}

func (s *Server) setPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
}

// LongestScript is how long the server was busy with the longest script that it ran during f.
func (s *Server) LongestScript(f func()) (longest time.Duration) {
	s.t.Helper()
	ctx := context.Background()
	err := errors.Join(s.own.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err(), s.own.Do(ctx, "slowlog", "reset").Err())
	if err != nil {
		s.t.Fatal(err)
	}
	f()
	entries, err := s.own.SlowLogGet(ctx, -1).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		if len(e.Args) > 0 && strings.HasPrefix(strings.ToLower(e.Args[0]), "eval") {
			longest = max(longest, e.Duration)
		}
	}
	return longest
}
