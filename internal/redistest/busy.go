package redistest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// busyLimit is for how long a script of lockd may keep Redis from serving others, on a machine on which a script takes
	// as long that makes so many calls of a command.
	busyLimit = 5 * time.Millisecond
	busyCalls = 12_500
)

// busyLimitHere is the same on this machine, if it is slower.
func busyLimitHere(ctx context.Context, c *redis.Client) time.Duration {
	const text = "for i = 1, ARGV[1] do redis.call('EXISTS', KEYS[1]) end return 1"
	shortest := time.Hour
	for range 5 {
		begun := time.Now()
		if err := c.Eval(ctx, text, []string{"nothing"}, busyCalls).Err(); err != nil {
			return busyLimit
		}
		shortest = min(shortest, time.Since(begun))
	}
	return max(shortest, busyLimit)
}

// BusyScripts says why this server may be kept busy for longer: the test asks for more than any client can.
func (s *Server) BusyScripts(why string) {
	s.t.Logf("scripts may take long: %s", why)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = true
}

// span is a time in which a server was paused.
type span struct{ from, to time.Time }

// within is how much of it may lie in the time of a slow command. Redis knows the second in which that ended.
func (p span) within(e redis.SlowLog) time.Duration {
	from, to := e.Time.Add(-e.Duration), e.Time.Add(time.Second)
	if p.from.After(from) {
		from = p.from
	}
	if p.to.Before(to) && !p.to.IsZero() {
		to = p.to
	}
	return max(to.Sub(from), 0)
}

// checkScripts fails the test if a script kept the server busy for longer than busyLimit. The log of slow commands
// counts the time on the clock, so all the time in which the server could not run is taken off, and pauses.
func (s *Server) checkScripts() {
	s.mu.Lock()
	p, busy, pauses := s.proc, s.busy, s.pauses
	s.mu.Unlock()
	if p == nil || busy {
		return
	}
	c := s.newClient()
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	entries, err := c.SlowLogGet(ctx, -1).Result()
	if err != nil {
		return // the test stopped it, or gave it a password
	}
	wait := waited(p.cmd.Process.Pid)
	var limit time.Duration
	for _, e := range entries {
		off := wait
		for _, p := range pauses {
			off += p.within(e)
		}
		if len(e.Args) < 2 || !strings.EqualFold(e.Args[0], "evalsha") || e.Duration-off <= busyLimit {
			continue
		}
		if limit == 0 {
			limit = busyLimitHere(ctx, c)
		}
		if e.Duration-off > limit {
			s.t.Errorf("a script kept Redis busy for %v (it could not run for %v in the whole test): %.300q", e.Duration, off,
				e.Args)
		}
	}
}

// waited is for how long the main thread of a process was ready to run and did not.
func waited(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, pid))
	var ran, waited int64
	if err == nil {
		_, err = fmt.Sscan(string(text), &ran, &waited)
	}
	if err != nil { // not every kernel counts
		return time.Hour
	}
	return time.Duration(waited)
}
