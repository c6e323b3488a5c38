package redisson

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// load tells how long the processes of a test had to wait for a processor because others had them all. Promises in
// milliseconds are about lockd and Redisson, not about who else uses the machine: that time is taken off, for each
// process that of the thread that waited longest, as the others waited at the same time.
type load struct {
	pids   []int
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
	l := &load{pids: []int{os.Getpid(), redis, s.lockd.pid(), s.redisson.agent.pid()}}
	l.begin()
	return l
}

// begin counts from now.
func (l *load) begin() { l.before = l.waited() }

// off takes the time waited since begin off a duration.
func (l *load) off(d time.Duration) time.Duration {
	longest := make(map[string]time.Duration) // by process
	for path, waited := range l.waited() {
		process := filepath.Dir(filepath.Dir(path))
		longest[process] = max(longest[process], waited-l.before[path])
	}
	for _, waited := range longest {
		d -= waited
	}
	return d
}

// waited is for how long each thread was ready to run and did not.
func (l *load) waited() map[string]time.Duration {
	threads := make(map[string]time.Duration)
	for _, pid := range l.pids {
		paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, path := range paths {
			text, _ := os.ReadFile(path) // the thread may be gone, and not every kernel counts
			var ran, waited int64
			if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
				threads[path] = time.Duration(waited)
			}
		}
	}
	return threads
}
