package redlock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// forcedNames knows which names were freed by force a moment ago. An acquisition that was under way then may have lost
// members that had said yes. The caller knows of no hold yet that it could verify, so it is not told that it has one.
type forcedNames struct {
	count atomic.Int64 // of names; most acquisitions look at nothing else

	mu    sync.Mutex // guards the fields below
	names map[string]time.Time
	order []forcedName // the oldest first
}

// forcedName is a name that was freed at a time.
type forcedName struct {
	name string
	at   time.Time
}

// note is called when a name was freed at a member. Names are forgotten when no acquisition is under way any more that
// began before, which takes so long.
func (f *forcedNames) note(name string, keep time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names == nil {
		f.names = make(map[string]time.Time)
	}
	now := time.Now()
	for len(f.order) > 0 && now.Sub(f.order[0].at) > keep {
		if old := f.order[0]; f.names[old.name].Equal(old.at) {
			delete(f.names, old.name)
		}
		f.order = f.order[1:]
	}
	f.names[name] = now
	f.order = append(f.order, forcedName{name, now})
	f.count.Store(int64(len(f.names)))
}

// since says whether one of the names of some claims was freed at a time or later.
func (f *forcedNames) since(cs []lock.Claim, begun time.Time) bool {
	if f.count.Load() == 0 {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range cs {
		if at, ok := f.names[c.Name]; ok && !at.Before(begun) {
			return true
		}
	}
	return false
}

// errForced: who repeats it learns what is left.
var errForced = fmt.Errorf("%w: the name was freed by force meanwhile", lock.ErrOutcomeUnknown)
