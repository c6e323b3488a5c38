package redlock

import (
	"context"
	"errors"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// DataLoss may be implemented by a member. since is when it came back without its data, or may have; ok is false if it
// never did. Such a member may have forgotten a hold. If it voted for another owner of the name, it might be the only
// member that two majorities have in common. So it does not vote for new holds until every lease that it may have
// forgotten has ended.
type DataLoss interface {
	DataLoss() (since time.Time, ok bool)
}

// Marked may be implemented by a member: it says whether somebody marked the member as new since it last lost its data.
// Absence of data is no such sign, because other replicas may have used the member. If all members are marked, nothing
// can have been forgotten, and ConfirmNew tells them so.
type Marked interface {
	Marked() bool
	ConfirmNew(ctx context.Context) error
}

// confirmNew calls ConfirmNew on all members if all are marked and none was ever met without the mark, and waits for
// their answers.
func (s *Store) confirmNew(ctx context.Context) {
	if s.marked() < len(s.members) || s.health.met.Load() {
		return
	}
	s.log.Info("all members are new")
	s.together(func(m *member) {
		if b, ok := lock.As[Marked](m.Store); ok {
			_ = b.ConfirmNew(ctx) // if it fails, the member does not vote for a while
		}
	})
}

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
	silent atomic.Bool // a request that writes waited for the member in vain, and it has answered none since
	// What the log was told: that the member was probed, that it does not vote, that it is the same server as another one.
	met, out, doubled atomic.Bool
}

// heard notes by the answer to a request that writes whether the member is silent.
func (m *member) heard(err error) {
	forgot := errors.Is(err, errForgot) // it answered all the same
	if is := isUnknown(err) && !forgot; is != m.silent.Load() && (is || forgot || !failed(err)) {
		m.silent.Store(is)
	}
}

// quarantined says whether a member does not vote for new holds. It is asked all the same, and its holds exclude
// others. Holds that a majority has may be prolonged and put back there, because they are certain.
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

type set uint32

func (s *set) add(i int)     { *s |= 1 << i }
func (s *set) remove(i int)  { *s &^= 1 << i }
func (s set) has(i int) bool { return s&(1<<i) != 0 }
func (s set) len() int       { return bits.OnesCount32(uint32(s)) }
