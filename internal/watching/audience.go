package watching

import (
	"maps"
	"slices"

	"github.com/lockd-io/lockd/internal/lock"
)

// audience are those who watch a name.
type audience struct {
	of map[Watcher]bool
	by map[lock.Tenant]int // how many are whose
	// list has them all, to be told of an end; nil if one came or left since it was made. Who tells them has it, too, so
	// it is never changed.
	list []Watcher
}

func (a *audience) add(to Watcher) {
	if a.of == nil {
		a.of, a.by = make(map[Watcher]bool), make(map[lock.Tenant]int)
	}
	if !a.of[to] {
		a.of[to], a.list = true, nil
		a.by[to.Tenant()]++
	}
}

func (a *audience) remove(to Watcher) {
	if !a.of[to] {
		return
	}
	delete(a.of, to)
	a.list = nil
	if a.by[to.Tenant()]--; a.by[to.Tenant()] == 0 {
		delete(a.by, to.Tenant())
	}
}

// all are those of this moment, to be told of an end. Whoever ends a hold waits for it, so they are not gone over for
// each end.
func (a *audience) all() []Watcher {
	if len(a.list) != len(a.of) {
		a.list = slices.AppendSeq(make([]Watcher, 0, len(a.of)), maps.Keys(a.of))
	}
	return a.list
}
