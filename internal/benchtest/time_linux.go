package benchtest

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// processorTime is what a function takes of a processor, in its own thread.
func processorTime(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := cpu(unix.CLOCK_THREAD_CPUTIME_ID)
	f()
	return cpu(unix.CLOCK_THREAD_CPUTIME_ID) - before
}
