package watchdog

import (
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// entry is a lease in the heap. Watchdog.mu guards it, but for start, which belongs to the loop until a renewal is sent
// and to that renewal afterwards.
type entry struct {
	lease    *broker.Lease
	interval time.Duration
	at       time.Time // when something is to be done
	renewAt  time.Time
	until    time.Time // validity, as last read
	index    int       // in the heap, -1 outside
	busy     bool      // a renewal is under way
	again    bool      // renew once more after it
	start    time.Time // of the last renewal
}

// entries is a heap.Interface, the earliest entry first.
type entries []*entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are for container/heap.
func (h *entries) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop removes the last entry.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = -1
	return e
}
