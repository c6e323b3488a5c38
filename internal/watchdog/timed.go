package watchdog

import (
	"cmp"

	"github.com/google/btree"
)

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
	return btree.NewG(degree, func(a, b timed) bool { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) < 0 })
}

// firstOf is the time of the earliest, never if there is none.
func firstOf(t *timeline) moment {
	if first, some := t.Min(); some {
		return first.at
	}
	return never
}
