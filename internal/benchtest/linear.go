package benchtest

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

const (
	// times is how many times the things of the first run of Linear the second one has.
	times = 16
	// mostEach is how many times as much each thing may cost then: more memory is slower, and a run is short. Where each
	// is looked at for each other one it costs 16 times as much.
	mostEach = 8
	// tries is how many runs there are, of which the cheapest one counts.
	tries = 3
)

// Linear fails if the cost of work grows faster than n, the number of things with which prepare makes it. The cost is
// the time of a processor, so other work on the machine does not matter.
func Linear(t *testing.T, few int, prepare func(n int) (work func())) {
	t.Helper()
	cost := func(n int) (least time.Duration) {
		for i := range tries {
			work := prepare(n)
			runtime.GC()
			before := debug.SetGCPercent(-1) // what the collector does is not the work's
			spent := processorTime(work)
			debug.SetGCPercent(before)
			if i == 0 || spent < least {
				least = spent
			}
		}
		return least
	}
	little, much := cost(few), cost(times*few)
	t.Logf("%d cost %v, %d cost %v", few, little, times*few, much)
	if little = max(little, 20*time.Microsecond); much > times*mostEach*little {
		t.Errorf("%d cost %v, and %d cost %v: it grows faster than their number", few, little, times*few, much)
	}
}
