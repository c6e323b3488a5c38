package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// load tells how long the processes of a test had to wait for a processor because others had them all. Promises in
// milliseconds are about lockd, not about who else uses the machine: that time is taken off. On a machine with nothing
// else to do it is next to nothing.
type load struct {
	pids   []int
	before time.Duration
}

// loadOn begins to count for us, a Redis and some servers.
func loadOn(t *testing.T, rc *redis.Client, ds ...*lockd) *load {
	t.Helper()
	info, err := rc.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	text, _, _ := strings.Cut(rest, "\r\n")
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{pids: []int{os.Getpid(), pid}}
	for _, d := range ds {
		l.pids = append(l.pids, d.pid())
	}
	l.begin()
	return l
}

// begin counts from now.
func (l *load) begin() { l.before = l.waited() }

// off takes the time waited since begin off a duration.
func (l *load) off(d time.Duration) time.Duration { return d - max(l.waited()-l.before, 0) }

// waited is for how long all threads together were ready to run and did not.
func (l *load) waited() (sum time.Duration) {
	for _, pid := range l.pids {
		paths, _ := filepath.Glob(procFile(pid, "task/*/schedstat"))
		for _, path := range paths {
			text, _ := os.ReadFile(path) // the thread may be gone, and not every kernel counts
			var ran, waited int64
			if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
				sum += time.Duration(waited)
			}
		}
	}
	return sum
}
