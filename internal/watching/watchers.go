package watching

import (
	"maps"
	"slices"

	"github.com/lockd-io/lockd/internal/lock"
)

// watchers are those who watch a name.
type watchers struct {
	of map[Watcher]bool
	by map[lock.Tenant]int // how many are whose
	// list has them all, to be told of an end; nil if one came or left since it was made. Who tells them has it, too, so
	// it is never changed.
	list []Watcher
}

func (ws *watchers) add(to Watcher) {
	if ws.of == nil {
		ws.of, ws.by = make(map[Watcher]bool), make(map[lock.Tenant]int)
	}
	if !ws.of[to] {
		ws.of[to], ws.list = true, nil
		ws.by[to.Tenant()]++
	}
}

func (ws *watchers) remove(to Watcher) {
	if !ws.of[to] {
		return
	}
	delete(ws.of, to)
	ws.list = nil
	if ws.by[to.Tenant()]--; ws.by[to.Tenant()] == 0 {
		delete(ws.by, to.Tenant())
	}
}

// all are those of this moment, to be told of an end. Whoever ends a hold waits for it, so they are not gone over for
// each end.
func (ws *watchers) all() []Watcher {
	if len(ws.list) != len(ws.of) {
		ws.list = slices.AppendSeq(make([]Watcher, 0, len(ws.of)), maps.Keys(ws.of))
	}
	return ws.list
}
