package redisstore

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Abandoned are holds whose release got no reply: Redis may still execute it. If the owner asks again, Redis answers
// with the hold that it has, and the late release would end that hold. So no grant is told with a fence that is here.
// A later grant has a greater fence, and the late release does not touch it.
//
// A release of permits compares no fence. So permits are not told for as long as a command may be on its way.
type Abandoned struct {
	n atomic.Int64 // holds, so that nothing is locked while there are none

	mu    sync.Mutex // guards the field below
	holds map[abandonedKey]abandonedHold
}

type abandonedKey struct {
	name  string
	kind  lock.Kind
	owner lock.Owner
}

type abandonedHold struct {
	fence lock.Fence // the greatest one
	until time.Time  // when it is over in any case
}

// ErrAbandoned is why something that was granted is not told.
var ErrAbandoned = errors.New("an earlier release of it may be executed yet")

const (
	// underWay is for how long a command may be on its way after its time was up.
	underWay = 15 * time.Second
	// longestAbandoned bounds it for what lasts very long.
	longestAbandoned = 40 * underWay
	// mostAbandoned bounds how many are known. What is more is as if it were not known.
	mostAbandoned = 10_000
)

// Add notes a hold, which ends by itself after a time.
func (a *Abandoned) Add(r lock.Return, ttl time.Duration) {
	now, key := time.Now(), abandonedKey{r.Name, r.Kind, r.Owner}
	if r.Kind == lock.Semaphore {
		ttl = underWay
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds == nil {
		a.holds = make(map[abandonedKey]abandonedHold)
	}
	if len(a.holds) >= mostAbandoned {
		a.sweepLocked(now)
	}
	if before, there := a.holds[key]; there || len(a.holds) < mostAbandoned {
		a.holds[key] = abandonedHold{max(before.fence, r.Fence), now.Add(min(max(ttl, underWay), longestAbandoned))}
	}
	a.n.Store(int64(len(a.holds)))
}

// Has says whether a grant is one of them.
func (a *Abandoned) Has(c lock.Claim, f lock.Fence) bool {
	if a.n.Load() == 0 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	h, there := a.holds[abandonedKey{c.Name, c.Kind, c.Owner}]
	switch {
	case !there:
		return false
	case now.After(h.until):
		a.sweepLocked(now)
		return false
	}
	return c.Kind == lock.Semaphore || f <= h.fence
}

// sweepLocked forgets those that are over.
func (a *Abandoned) sweepLocked(now time.Time) {
	for key, h := range a.holds {
		if now.After(h.until) {
			delete(a.holds, key)
		}
	}
	a.n.Store(int64(len(a.holds)))
}

// Unsettled says whether it is not known that a hold is over, by the outcome of its release.
func Unsettled(err error) bool {
	return err != nil && !errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, lock.ErrStale)
}
