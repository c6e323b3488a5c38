package watching

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// recentFences are those of the last ends that were told.
type recentFences struct {
	set   map[lock.Fence]struct{}
	order []lock.Fence
}

func (r *recentFences) has(f lock.Fence) bool { _, there := r.set[f]; return there }

func (r *recentFences) add(f lock.Fence) {
	if r.set == nil {
		r.set = make(map[lock.Fence]struct{})
	}
	r.set[f] = struct{}{}
	r.order = append(r.order, f)
	if len(r.order) > maxTold {
		delete(r.set, r.order[0])
		r.order = r.order[1:]
	}
}

// recentHolds are those whose end was told, by ID, for staleTime to twice that or while they are not too many.
type recentHolds struct {
	young, old map[string]goneHold
	since      time.Time // of the young ones
}

func (r *recentHolds) get(id string) goneHold {
	if g, there := r.young[id]; there {
		return g
	}
	return r.old[id]
}

func (r *recentHolds) add(id string, g goneHold) {
	if r.young == nil || g.at.Sub(r.since) > staleTime || len(r.young) >= maxTold {
		r.old, r.young, r.since = r.young, make(map[string]goneHold), g.at
	}
	r.young[id] = g
}

func (r *recentHolds) forget(id string) {
	delete(r.young, id)
	delete(r.old, id)
}
