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
}

func (a *audience) add(to Watcher) {
	if a.of == nil {
		a.of, a.by = make(map[Watcher]bool), make(map[lock.Tenant]int)
	}
	if !a.of[to] {
		a.of[to] = true
		a.by[to.Tenant()]++
	}
}

func (a *audience) remove(to Watcher) {
	if !a.of[to] {
		return
	}
	delete(a.of, to)
	if a.by[to.Tenant()]--; a.by[to.Tenant()] == 0 {
		delete(a.by, to.Tenant())
	}
}

// all are those of this moment, to be told of an end.
func (a *audience) all() []Watcher { return slices.Collect(maps.Keys(a.of)) }
