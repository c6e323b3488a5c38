package script

import (
	"runtime"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// wordsOfCost is how many words of a command are as much work as an ordinary operation, which has about as many.
	wordsOfCost = 8
	// permitsOfCost is the same for permits, which cost Redis about 2 µs each.
	permitsOfCost = 3
	// unaryCost is what a call without a session costs lockd itself: about 80 µs of processor time, several times as much
	// as a request of a session, and as much as so many ordinary operations in Redis.
	unaryCost = 16
)

// CostFactor is by how much more the calls of a tenant cost than what they cost Redis. Many calls without a session
// that are answered together keep lockd from serving anybody else, the longer the fewer processors it has.
func CostFactor(tenant string) int {
	if !strings.HasPrefix(tenant, lock.UnarySuffix) {
		return 1
	}
	return max(1, unaryCost/runtime.GOMAXPROCS(0))
}

// CostOf is what a script costs that is told so many words, as a pipe.Job has it: in ordinary operations.
func CostOf(words int) int { return 1 + words/wordsOfCost }

// CostOfPermits is what so many permits cost besides.
func CostOfPermits(n uint32) int { return int(min(n, lock.MaxPermits)) / permitsOfCost }
