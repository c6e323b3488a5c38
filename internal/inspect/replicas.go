package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// greetInterval is how often a replica tells the others that it is there, and greetPause is the time until it tries
	// again when it could not.
	greetInterval = time.Minute
	greetPause    = time.Second
	// maxReplicas bounds how many others are remembered: those that were heard of last.
	maxReplicas = 64
)

// Replica is one lockd process. When it is started again it has another id.
type Replica struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// Memory says how far back the history of a replica reaches, or, if it does not answer any more, how long ago it was
// heard of: what it remembered is missing.
type Memory struct {
	Replica
	Reach time.Duration `json:"reach"`          // 0: it remembers nothing
	Gone  time.Duration `json:"gone,omitempty"` // 0: it answers
}

func (d *Inspector) self() Replica { return Replica{d.ID, d.Replica} }

// Greet tells the others now and then that this replica is there, until ctx ends.
func (d *Inspector) Greet(ctx context.Context) {
	for ctx.Err() == nil {
		pause := greetInterval
		if d.peers.Tell(ctx, Question{About: AboutReplicas, By: d.self()}) != nil {
			pause = greetPause
		}
		lock.Pause(ctx, pause)
	}
}

// memory is that of this replica.
func (d *Inspector) memory() *Memory {
	m := &Memory{Replica: d.self()}
	if d.History != nil {
		m.Reach = max(time.Since(d.History.Reaches()), 1)
	}
	return m
}

// replicas are those that were heard of, because they asked or answered.
type replicas struct {
	mu   sync.Mutex // guards the field below
	last map[Replica]time.Time
}

func (r *replicas) heard(of Replica) {
	if of.ID == "" { // it is of an older version
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = make(map[Replica]time.Time)
	}
	r.last[of] = time.Now()
	if len(r.last) > maxReplicas {
		oldest := slices.MinFunc(slices.Collect(maps.Keys(r.last)), func(a, b Replica) int {
			return r.last[a].Compare(r.last[b])
		})
		delete(r.last, oldest)
	}
}

// others are those that were heard of, as if they did not answer any more.
func (r *replicas) others() (all []Memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, at := range r.last {
		all = append(all, Memory{Replica: of, Gone: max(time.Since(at), 1)})
	}
	return all
}

// memories are those of the replicas that answered, and of those that are gone, ordered by name. Replicas that were
// gone before the period are left out, as nothing of theirs is missing. If since is 0 the period begins when the
// longest memory does.
func memories(pages []Knowledge, since time.Duration) []Memory {
	byID, longest := make(map[string]Memory), time.Duration(0)
	for _, p := range pages {
		for _, m := range p.Others {
			if was, ok := byID[m.ID]; !ok || m.Gone < was.Gone {
				byID[m.ID] = m
			}
		}
	}
	for _, p := range pages {
		if p.Memory != nil {
			byID[p.Memory.ID] = *p.Memory
			longest = max(longest, p.Memory.Reach)
		}
	}
	since = cmp.Or(since, longest) + greetInterval
	maps.DeleteFunc(byID, func(_ string, m Memory) bool { return m.Gone > since })
	return slices.SortedFunc(maps.Values(byID), func(a, b Memory) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Gone, b.Gone), cmp.Compare(a.ID, b.ID))
	})
}
