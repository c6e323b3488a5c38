//go:build race

package benchtest

// With the race detector a sync.Pool loses a quarter of what it is given.
func init() { lossy = 1.25 }
