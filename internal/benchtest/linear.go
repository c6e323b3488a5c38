package benchtest

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

const (
	// times is how many times as many things the second run of Linear has.
	times = 16
	// mostEach is how many times as much each of them may cost: more memory is slower, and a run is short. Where each is
	// looked at for each other one it is 16 times as much.
	mostEach = 8
	// tries is of how many runs the cheapest one counts.
	tries = 3
)

// Linear fails if what work costs grows faster than the number of things that it is prepared with. It counts the time
// of a processor, so it does not matter what else there is to do.
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
