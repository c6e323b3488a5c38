package proctest

import (
	"math"
	"time"
)

// leastOf is how often Least measures, at most.
const leastOf = 5

// Least is the shortest time that something takes, of a few: what else the machine does makes it longer only. Nothing
// is done again once that was soon enough.
func Least(enough time.Duration, do func()) time.Duration {
	least := time.Duration(math.MaxInt64)
	for range leastOf {
		begun := time.Now()
		do()
		if least = min(least, time.Since(begun)); least <= enough {
			break
		}
	}
	return least
}
