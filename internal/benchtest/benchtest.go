// Package benchtest measures what a pair of lock and unlock costs inside of lockd: allocations, and the time under a
// mutex that others share.
package benchtest

import (
	"testing"
)

// lossy is the factor for allocations that are made because pools lose what they are given.
var lossy = 1.0

// Allocs runs work, which makes so many pairs, and fails if this process allocates more often than most for a pair.
// most is today's number and a little more: it is lowered when the number falls, so that it cannot grow unnoticed.
func Allocs(t *testing.T, pairs int, most float64, work func()) {
	t.Helper()
	const runs = 100
	most *= lossy
	each := testing.AllocsPerRun(runs, work) / float64(pairs)
	t.Logf("a pair allocates %.1f times, at most %.0f are allowed", each, most)
	if each > most {
		t.Errorf("a pair allocates %.1f times, want at most %.0f", each, most)
	}
}
