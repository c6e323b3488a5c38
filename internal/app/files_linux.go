package app

import (
	"math"
	"syscall"
)

// openFiles is how many files this process may have open, 0 if nobody knows.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, math.MaxInt32))
}
