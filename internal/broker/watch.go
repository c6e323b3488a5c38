package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watching"
)

// Watch tells the session from the answer on of each end of a hold of a name. The answer is Done or Failed.
func (s *Session) Watch(id uint64, name string) {
	s.begin(id, s.b.rules.Name(name), func() error {
		return s.Session.Watch(name, func() { s.b.watching.Watch(name, watcher{s}, id) })
	})
}

// Unwatch takes a Watch back. It is no error if there is none.
func (s *Session) Unwatch(id uint64, name string) {
	s.begin(id, s.b.rules.Name(name), func() error {
		s.unwatch(name)
		s.Tell(session.Done{ID: id})
		return nil
	})
}

func (s *Session) unwatch(name string) {
	s.Session.Unwatch(name, func() { s.b.watching.Unwatch(name, watcher{s}) })
}

// watcher is a session as a watching.Watcher.
type watcher struct{ s *Session }

// Watching implements watching.Watcher.
func (w watcher) Watching(id uint64) { w.s.Tell(session.Done{ID: id}) }

// Unlocked implements watching.Watcher.
func (w watcher) Unlocked(name string, e watching.End) {
	w.s.TellWatched(session.Unlocked{Name: name, Cause: e.Cause, Fence: e.Fence, Hold: e.Hold})
}

// tellEnd tells who watches of a hold that this replica gave back. That is paid for by the session that had the hold if
// its own tenant watches: nobody is to be slowed down because a stranger watches what he does, or does what he
// watches.
func (b *Broker) tellEnd(h *handover) {
	if h.err != nil || h.r.Remaining > 0 || h.r.Fence == 0 || b.watching.Names() == 0 {
		return
	}
	e := watching.End{Cause: lock.EndReleased, Fence: h.r.Fence}
	if h.res.HandedOver != 0 {
		e.Cause = lock.EndHandedOver
	}
	if h.r.Kind == lock.Semaphore {
		e.Hold = lock.PermitsOf(h.r.Owner)
	}
	by := b.watching.Ended(h.r.Name, e)
	if h.of == nil || h.of.sess == nil {
		return
	}
	t := h.of.sess.Client().Tenant
	told := 0
	for _, w := range by {
		if w.(watcher).s.Client().Tenant == t {
			told++
		}
	}
	if told > 0 {
		h.of.sess.Spend(limits.Change + time.Duration(told)*limits.Told)
	}
}
