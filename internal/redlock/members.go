package redlock

import (
	"context"
	"errors"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// DataLoss is what a member may tell besides. Since is when it came back without the data it had, or may have come back
// so; ok is false if it never did. Such a member may have forgotten a hold. If it voted for another owner of the name,
// two majorities would have only it in common. So it does not vote for new holds until every lease it may have
// forgotten has ended.
type DataLoss interface {
	DataLoss() (since time.Time, ok bool)
}

// Marked is what a member may tell besides: whether somebody marked it as new since it has lost its data. That nothing
// is there is no such sign, as other replicas may have used it. If all members are marked, nothing can have been
// forgotten, and they are told so by ConfirmNew.
type Marked interface {
	Marked() bool
	ConfirmNew(ctx context.Context) error
}

// confirmNew tells all members that they are new, if they are, and waits for their answers. They are not if one of them
// was met before without the mark.
func (s *Store) confirmNew(ctx context.Context) {
	if s.marked() < len(s.members) || s.health.met.Load() {
		return
	}
	s.log.Info("all members are new")
	s.together(func(m *member) {
		if b, ok := lock.As[Marked](m.Store); ok {
			_ = b.ConfirmNew(ctx) // else it does not vote for a while
		}
	})
}

// marked is how many members are marked as new.
func (s *Store) marked() (n int) {
	for _, m := range s.members {
		if b, ok := lock.As[Marked](m.Store); ok && m.up.Load() && b.Marked() {
			n++
		}
	}
	return n
}

// member is one of the stores.
type member struct {
	lock.Store
	number int
	name   string
	up     atomic.Bool // the last probe was answered
	silent atomic.Bool // a request that writes waited for it in vain, and none was answered since
	// What the log was told of it: that a probe was over, that it does not vote, that it is another one as well.
	met, out, doubled atomic.Bool
}

// heard notes the answer to a request that writes: whether the member is silent.
func (m *member) heard(err error) {
	forgot := errors.Is(err, errForgot) // it answered all the same
	if is := isUnknown(err) && !forgot; is != m.silent.Load() && (is || forgot || !failed(err)) {
		m.silent.Store(is)
	}
}

// quarantined says whether a member does not vote for new holds. It is asked all the same, and what it holds excludes
// others. Holds that a majority has may be prolonged and put back there: they are known to be true.
func (s *Store) quarantined(m *member) bool {
	return s.quarantine(m) > 0
}

// voters is how many of some members vote for new holds.
func (s *Store) voters(of set) (n int) {
	for i, m := range s.members {
		if of.has(i) && !s.quarantined(m) {
			n++
		}
	}
	return n
}

// set is a set of members.
type set uint32

func (s *set) add(i int)     { *s |= 1 << i }
func (s *set) remove(i int)  { *s &^= 1 << i }
func (s set) has(i int) bool { return s&(1<<i) != 0 }
func (s set) len() int       { return bits.OnesCount32(uint32(s)) }
