package script

import (
	"runtime"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// wordsOfCost is how many words of a command cost Redis as much as an ordinary operation, which has about as many.
	wordsOfCost = 8
	// permitsOfCost is how many permits cost Redis as much as that, about 2 µs each.
	permitsOfCost = 3
	// unaryCost is what a call without a session costs lockd itself, in ordinary operations: about 80 µs of processor
	// time, several times as much as a request of a session.
	unaryCost = 16
)

// CostFactor multiplies the cost of a tenant's calls. It is more than 1 for calls without a session: many of them that
// are answered together keep lockd from serving others, the longer the fewer processors it has.
func CostFactor(tenant string) int {
	if !strings.HasPrefix(tenant, lock.UnarySuffix) {
		return 1
	}
	return max(1, unaryCost/runtime.GOMAXPROCS(0))
}

// CostOf is what a call with this number of words costs, in ordinary operations, as in pipe.Job.
func CostOf(words int) int { return 1 + words/wordsOfCost }

// CostOfPermits is what the call costs more for n permits.
func CostOfPermits(n uint32) int { return int(min(n, lock.MaxPermits)) / permitsOfCost }
