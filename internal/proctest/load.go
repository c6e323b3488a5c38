package proctest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Load tells how long the processes of a test had to wait for a processor because others had them all. Promises in
// milliseconds are about the programs, not about who else uses the machine: that time is taken off, for each process
// that of the thread that waited longest, as the others waited at the same time. With nothing else to do it is next to
// nothing.
type Load struct {
	turns  map[int]int // for each process, how many of its threads take turns
	before map[string]time.Duration
}

// LoadOn begins to count for us and other processes.
func LoadOn(pids ...int) *Load {
	l := &Load{turns: map[int]int{os.Getpid(): 1}}
	for _, pid := range pids {
		l.turns[pid] = 1
	}
	l.Begin()
	return l
}

// TakeTurns says that so many threads of a process wait for each other, so that the time of each counts.
func (l *Load) TakeTurns(pid, threads int) { l.turns[pid] = threads }

// Begin counts from now.
func (l *Load) Begin() {
	l.before = make(map[string]time.Duration)
	for pid := range l.turns {
		maps.Copy(l.before, waitedBy(pid))
	}
}

// Off takes the time waited since Begin off a duration.
func (l *Load) Off(d time.Duration) time.Duration {
	for pid, turns := range l.turns {
		var since []time.Duration
		for path, waited := range waitedBy(pid) {
			since = append(since, waited-l.before[path])
		}
		slices.Sort(since)
		for _, waited := range since[max(0, len(since)-turns):] {
			d -= waited
		}
	}
	return d
}

// waitedBy is for how long each thread of a process was ready to run and did not.
func waitedBy(pid int) map[string]time.Duration {
	threads := make(map[string]time.Duration)
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, path := range paths {
		text, _ := os.ReadFile(path) // the thread may be gone, and not every kernel counts
		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			threads[path] = time.Duration(waited)
		}
	}
	return threads
}
