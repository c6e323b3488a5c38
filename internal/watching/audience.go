package watching

import (
	"slices"
	"sync/atomic"

	"github.com/lockd-io/lockd/internal/lock"
)

// audience are those who watch a name. Who is to be told of an end keeps the seats of that moment, so none of those is
// changed: more are put behind them, and when many are left, the others move. So a Watcher more or less costs the same
// however many there are.
type audience struct {
	seats []*seat           // in the order in which they came
	of    map[Watcher]*seat // those that are not left
	by    map[lock.Tenant]int
}

// seat is the place of a Watcher until it leaves.
type seat struct {
	to   Watcher
	left atomic.Bool
}

func (a *audience) len() int { return len(a.of) }

func (a *audience) add(to Watcher) {
	if a.of[to] != nil {
		return
	}
	if a.of == nil {
		a.of, a.by = make(map[Watcher]*seat), make(map[lock.Tenant]int)
	}
	a.by[to.Tenant()]++
	a.of[to] = &seat{to: to}
	a.seats = append(a.seats, a.of[to])
}

func (a *audience) remove(to Watcher) {
	if s := a.of[to]; s != nil {
		s.left.Store(true)
		delete(a.of, to)
		if a.by[to.Tenant()]--; a.by[to.Tenant()] == 0 {
			delete(a.by, to.Tenant())
		}
	}
	if 2*len(a.of) <= len(a.seats) {
		a.seats = slices.DeleteFunc(slices.Clone(a.seats), func(s *seat) bool { return s.left.Load() })
	}
}
