// Package tier says which tests are long.
//
// The variable does not begin with LOCKD_: lockd refuses those that it does not know.
//
// A test is in the first tier, which is the default, if it proves a promise that no quicker test proves, and takes
// seconds. The second tier has the rest: every version of a server, every topology's contract, long comparisons of
// random steps, faults for minutes. `make test` runs the first, `make test-long` both.
package tier

import (
	"os"
	"testing"
)

// IsLong is true in a run of both tiers.
var IsLong = os.Getenv("TEST_LONG") == "1"

// Long skips a test that belongs to the second tier in a run of the first.
func Long(t testing.TB) {
	t.Helper()
	if !IsLong {
		t.Skip("in the second tier: make test-long")
	}
}

// Pick returns how much of something a test does in the first tier, and how much in the second.
func Pick[T any](short, long T) T {
	if IsLong {
		return long
	}
	return short
}
