package script

import "github.com/lockd-io/lockd/internal/lock"

const (
	// wordsOfCost is how many words of a command are as much work as a single, which has about as many.
	wordsOfCost = 8
	// permitsOfCost is the same for permits, which cost Redis about 2 µs each.
	permitsOfCost = 3
)

// CostOf is what a script costs that is told so many words, as a pipe.Job has it: in singles.
func CostOf(words int) int { return 1 + words/wordsOfCost }

// CostOfPermits is what so many permits cost besides.
func CostOfPermits(n uint32) int { return int(min(n, lock.MaxPermits)) / permitsOfCost }
