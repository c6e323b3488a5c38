package redisstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// batchCost is what a batch may cost Redis, in singles of about 5 µs, unless a command alone costs more. So much is done in less
	// than a millisecond.
	batchCost = 128
	// largeCost is from where on a command is one of the large ones.
	largeCost = 16
	// wordsOfCost is how many words of a command are as much work as a single, which has about as many.
	wordsOfCost = 8
	// permitsOfCost is the same for permits, which cost Redis about 2 µs each.
	permitsOfCost = 3
)

// costOf is what a script costs that is told so many words.
func costOf(words int) int { return 1 + words/wordsOfCost }

// costOfPermits is what so many permits cost besides.
func costOfPermits(n uint32) int { return int(min(n, lock.MaxPermits)) / permitsOfCost }

// line is jobs that wait, the oldest first.
type line []job

// cut takes the first jobs out, as many and as costly as go into a batch.
func (l *line) cut(most int) []job {
	n, cost := 0, 0
	for n < min(len(*l), most) {
		if cost += (*l)[n].cost; n > 0 && cost > batchCost {
			break
		}
		n++
	}
	return l.first(n)
}

// before takes those out that were queued before a time.
func (l *line) before(t time.Time) []job {
	n := 0
	for n < len(*l) && (*l)[n].queued.Before(t) {
		n++
	}
	return l.first(n)
}

// first takes the first n out.
func (l *line) first(n int) []job {
	jobs := (*l)[:n:n]
	if n == len(*l) {
		*l = nil
	} else {
		*l = (*l)[n:]
	}
	return jobs
}
