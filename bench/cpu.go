package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// usage is the CPU time, user and system, that the processes have used.
type usage struct{ redis, lockd, client time.Duration }

// usage reads the clocks. client is the process of the callers.
func (e env) usage(client int) (usage, error) {
	var u usage
	var err error
	masters := e.masters
	if masters == nil {
		masters = []*process{e.redis}
	}
	for _, p := range masters {
		cpu, err := cpuOf(p.pid())
		if err != nil {
			return u, err
		}
		u.redis += cpu
	}
	for _, p := range e.lockd {
		cpu, err := cpuOf(p.pid())
		if err != nil {
			return u, err
		}
		u.lockd += cpu
	}
	u.client, err = cpuOf(client)
	return u, err
}

// since is what was used since an earlier reading, divided by n.
func (u usage) since(before usage, n int) usage {
	d := time.Duration(max(n, 1))
	return usage{(u.redis - before.redis) / d, (u.lockd - before.lockd) / d, (u.client - before.client) / d}
}

// cpuOf is the CPU time of a process and all its threads, to the nanosecond: the clock that clock_getcpuclockid(3)
// names.
func cpuOf(pid int) (time.Duration, error) {
	const sched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|sched), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// self is the process of the callers, unless a peer brings its own.
var self = os.Getpid()
