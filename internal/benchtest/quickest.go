package benchtest

import "time"

// Quickest is the least time that f takes; what else the machine does makes it longer only.
func Quickest(f func()) time.Duration {
	least := time.Hour
	for range 20 {
		began := time.Now()
		f()
		least = min(least, time.Since(began))
	}
	return least
}
