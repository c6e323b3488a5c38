package watchdog

import (
	"sync/atomic"
	"time"
)

// lateness is how late renewals are: that of the one whose turn is next, or of the last one.
type lateness struct {
	since  atomic.Int64 // when the next one was to be renewed; never if none waits
	last   atomic.Int64 // by how much the last one was late
	lastAt atomic.Int64 // when that was
}

// lastCounts is for how long the lateness of the last one says something about now.
const lastCounts = moment(100 * time.Millisecond)

// waits notes when the next one was to be renewed, never if none waits.
func (l *lateness) waits(since moment) { l.since.Store(since) }

// was notes how late a renewal was that had its turn.
func (l *lateness) was(now, late moment) {
	l.last.Store(late)
	l.lastAt.Store(now)
}

// at is how late they are.
func (l *lateness) at(now moment) time.Duration {
	var late moment
	if now-l.lastAt.Load() < lastCounts {
		late = l.last.Load()
	}
	if since := l.since.Load(); since > 0 {
		late = max(late, now-since)
	}
	return time.Duration(late)
}
