package redlock

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// doubts knows at which members a hold of a reader may end late: it was given back there while an older one stays, and
// the answer never came. Holds of a reader are told apart by their number alone. So what comes late takes a newer hold
// of the same number, and such a member does not count for a newer one.
type doubts struct {
	count atomic.Int64 // of those that are known; most calls look at nothing else

	mu    sync.Mutex // guards the fields below
	until map[doubt]time.Time
	swept time.Time // when it was looked last which of them are over
}

type doubt struct {
	member int
	of     holding
}

// underWay is for how long a command may be on its way when nobody waits for its answer any more.
const underWay = 15 * time.Second

// note takes note of what a member answered to a release.
func (d *doubts) note(m *member, r lock.Return, err error) {
	if r.Kind != lock.Read || r.Remaining == 0 || !isUnknown(err) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if now.Sub(d.swept) >= sweepPause {
		d.swept = now
		maps.DeleteFunc(d.until, func(_ doubt, end time.Time) bool { return now.After(end) })
	}
	if d.until == nil {
		d.until = make(map[doubt]time.Time)
	}
	if len(d.until) < maxOdd { // what is more is as if it were not known
		d.until[doubt{m.number, holding{r.Name, r.Owner}}] = now.Add(underWay)
	}
	d.count.Store(int64(len(d.until)))
}

// at says whether a member does not count for a newer hold.
func (d *doubts) at(m *member, of holding) bool {
	if d.count.Load() == 0 {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.until[doubt{m.number, of}])
}

// renewed is at for one that a member prolonged.
func (d *doubts) renewed(m *member, r lock.Renewal) bool {
	return r.Level > 1 && d.at(m, holding{r.Name, r.Owner})
}
