package redlock

import (
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// forced knows when names were freed by force. An acquisition that was under way then may have lost members that had
// said yes. The caller knows of no hold yet that it could verify, so it is not told that it has one.
//
// Names share places by a hash: an acquisition may be asked for once more because of another name.
type forced struct {
	began time.Time
	seed  maphash.Seed
	last  [1024]atomic.Int64 // in ns after began; 0 for never
}

func (f *forced) at(name string) *atomic.Int64 {
	return &f.last[maphash.String(f.seed, name)%uint64(len(f.last))]
}

// saw notes that a name was freed.
func (f *forced) saw(name string) { f.at(name).Store(int64(time.Since(f.began)) + 1) }

// since says whether one of the names of some claims was freed at a time or later.
func (f *forced) since(cs []lock.Claim, begun time.Time) bool {
	return slices.ContainsFunc(cs, func(c lock.Claim) bool { return f.at(c.Name).Load() > int64(begun.Sub(f.began)) })
}

// errForced: who repeats it learns what is left.
var errForced = fmt.Errorf("%w: the name was freed by force meanwhile", lock.ErrOutcomeUnknown)
