package watchdog

import "github.com/google/btree"

// timed is something that is due at a time.
type timed struct {
	at moment
	id uint32
}

// timeline has what is due, the earliest first.
type timeline = btree.BTreeG[timed]

// degree is the width of the tree.
const degree = 32

func newTimeline() *timeline {
	return btree.NewG(degree, func(a, b timed) bool { return a.at < b.at || a.at == b.at && a.id < b.id })
}

// firstOf is the time of the earliest, never if there is none.
func firstOf(t *timeline) moment {
	if first, some := t.Min(); some {
		return first.at
	}
	return never
}
