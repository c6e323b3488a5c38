package redisson

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// load tells how long the processes of a test had to wait for a processor because others had them all. Promises in
// milliseconds are about lockd and Redisson, not about who else uses the machine: that time is taken off, for each
// process that of the thread that waited longest, as the others waited at the same time. In Redisson two threads take
// turns: one hears Redis, and the one that wants the lock then asks.
type load struct {
	pids   []int
	java   int // one of them
	before map[string]time.Duration
}

// load begins to count for all that takes part in a test.
func (s *stage) load() *load {
	s.t.Helper()
	info, err := s.rc.Info(s.t.Context(), "server").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	text, _, _ := strings.Cut(rest, "\r\n")
	redis, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	l := &load{pids: []int{os.Getpid(), redis, s.lockd.pid(), s.redisson.agent.pid()}, java: s.redisson.agent.pid()}
	l.begin()
	return l
}

// begin counts from now.
func (l *load) begin() { l.before = l.waited() }

// off takes the time waited since begin off a duration.
func (l *load) off(d time.Duration) time.Duration {
	now := l.waited()
	for _, pid := range l.pids {
		var waited []time.Duration
		for path, total := range now {
			if strings.HasPrefix(path, tasks(pid)) {
				waited = append(waited, total-l.before[path])
			}
		}
		slices.Sort(waited)
		turns := 1
		if pid == l.java {
			turns = 2
		}
		for _, w := range waited[max(0, len(waited)-turns):] {
			d -= w
		}
	}
	return d
}

// waited is for how long each thread was ready to run and did not.
func (l *load) waited() map[string]time.Duration {
	threads := make(map[string]time.Duration)
	for _, pid := range l.pids {
		entries, _ := os.ReadDir(tasks(pid)) // the process may be gone
		for _, entry := range entries {
			path := tasks(pid) + entry.Name() + "/schedstat"
			text, _ := os.ReadFile(path) // the thread may be gone, and not every kernel counts
			if fields := strings.Fields(string(text)); len(fields) > 1 {
				waited, _ := strconv.ParseInt(fields[1], 10, 64)
				threads[path] = time.Duration(waited)
			}
		}
	}
	return threads
}

// tasks is where the threads of a process are.
func tasks(pid int) string { return fmt.Sprintf("/proc/%d/task/", pid) }
