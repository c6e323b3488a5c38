//go:build !linux

package benchtest

import "time"

// processorTime is how long a function takes.
func processorTime(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}
