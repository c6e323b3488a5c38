package redlock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Fresh is what a member may tell besides. Since is when it came back without the data it had, or may have come back
// so; ok is false if it never did. Such a member may have forgotten a hold. If it voted for another owner of the name,
// two majorities would have only it in common. So it does not vote for new holds until every lease it may have
// forgotten has ended.
type Fresh interface {
	Fresh() (since time.Time, ok bool)
}

// Blank is what a member may tell besides: whether it is new or was emptied, which it does not know itself. If all
// members are, they are new, and are told so by Found: nothing can have been forgotten.
type Blank interface {
	Blank() bool
	Found(ctx context.Context) error
}

// found tells all members that they are new, if they can be, and waits for their answers. They cannot if one of them
// was met before that was not: then all were emptied, or were restarted without their data, and there may be holders.
func (s *Store) found(ctx context.Context) {
	blank := s.blank()
	if len(blank) < len(s.members) || s.health.met.Load() {
		return
	}
	s.log.Info("all members are new")
	var wg sync.WaitGroup
	for _, b := range blank {
		wg.Go(func() { _ = b.Found(ctx) }) // else it does not vote for a while
	}
	wg.Wait()
}

// met takes note of a member that answered: whether it had been used before.
func (s *Store) met(m *member) {
	if b, ok := m.Store.(Blank); ok && !b.Blank() {
		s.health.met.Store(true)
	}
}

// blank are the members that are new or were emptied.
func (s *Store) blank() (all []Blank) {
	for _, m := range s.members {
		if b, ok := m.Store.(Blank); ok && m.up.Load() && b.Blank() {
			all = append(all, b)
		}
	}
	return all
}

// member is one of the stores.
type member struct {
	lock.Store
	number int
	name   string
	up     atomic.Bool // the last probe was answered
	silent atomic.Bool // a request that writes waited for it in vain, and none was answered since
	// What the log was told of it: that a probe was over, that it does not vote, that it is another one as well.
	met, muted, doubled atomic.Bool
}

// heard takes note of the answer to a request that writes: whether the member is silent.
func (m *member) heard(err error) {
	forgot := errors.Is(err, errForgot) // it answered all the same
	if is := isUnknown(err) && !forgot; is != m.silent.Load() && (is || forgot || !failed(err)) {
		m.silent.Store(is)
	}
}

// quarantined says whether a member does not vote for new holds. It is asked all the same, and what it holds excludes
// others. Holds that a majority has may be prolonged and put back there: they are known to be true.
func (s *Store) quarantined(m *member) bool {
	return s.mute(m) > 0
}

// set is a set of members.
type set uint32

func (s *set) add(i int)     { *s |= 1 << i }
func (s *set) remove(i int)  { *s &^= 1 << i }
func (s set) has(i int) bool { return s&(1<<i) != 0 }
