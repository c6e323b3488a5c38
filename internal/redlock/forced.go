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
// said yes, and its caller has no hold yet that it could verify. So it is not told as granted.
//
// Names share elements of last by a hash, so another name may cause an acquisition to be repeated.
type forced struct {
	began time.Time
	seed  maphash.Seed
	last  [1024]atomic.Int64 // in ns after began; 0 for never
}

func (f *forced) at(name string) *atomic.Int64 {
	return &f.last[maphash.String(f.seed, name)%uint64(len(f.last))]
}

func (f *forced) saw(name string) { f.at(name).Store(int64(time.Since(f.began)) + 1) }

// since says whether one of the claims' names was freed at begun or later.
func (f *forced) since(cs []lock.Claim, begun time.Time) bool {
	return slices.ContainsFunc(cs, func(c lock.Claim) bool { return f.at(c.Name).Load() > int64(begun.Sub(f.began)) })
}

// errForced: a repetition shows what is left.
var errForced = fmt.Errorf("%w: the name was freed by force meanwhile", lock.ErrOutcomeUnknown)
