package broker

import "github.com/lockd-io/lockd/internal/lock"

// Watch tells the session from the answer on of each end of a hold of a name. The answer is Done or Failed.
func (s *Session) Watch(id uint64, name string) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.admitLocked(id)
	if err == nil {
		err = b.checkName(name)
	}
	_, already := s.watched[name]
	if err == nil && !already && len(s.watched) >= b.cfg.Limits.WatchesPerSession {
		err = b.metrics.denied("watches", b.cfg.Limits.WatchesPerSession)
	}
	if err != nil {
		s.emitLocked(Failed{ID: id, Err: err})
		return
	}
	s.watched[name] = struct{}{}
	b.watching.Watch(name, watcher{s}, id)
}

// Unwatch takes a Watch back. It is no error if there is none.
func (s *Session) Unwatch(id uint64, name string) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := s.admitLocked(id); err != nil {
		s.emitLocked(Failed{ID: id, Err: err})
		return
	}
	s.unwatchLocked(name)
	s.emitLocked(Done{ID: id})
}

func (s *Session) unwatchLocked(name string) {
	delete(s.watched, name)
	s.b.watching.Unwatch(name, watcher{s})
}

// watcher is a session as a watching.Watcher.
type watcher struct{ s *Session }

// Watching implements watching.Watcher.
func (w watcher) Watching(id uint64) {
	w.s.b.mu.Lock()
	defer w.s.b.mu.Unlock()
	w.s.emitLocked(Done{ID: id})
}

// Unlocked implements watching.Watcher.
func (w watcher) Unlocked(name string, c lock.EndCause, f lock.Fence) {
	w.s.b.mu.Lock()
	defer w.s.b.mu.Unlock()
	if _, still := w.s.watched[name]; still {
		w.s.emitLocked(Unlocked{Name: name, Cause: c, Fence: f})
	}
}

// tellEnd tells who watches of a hold that this replica gave back.
func (b *Broker) tellEnd(h *handover) {
	if h.err != nil || h.r.Remaining > 0 || h.r.Fence == 0 || b.watching.Names() == 0 {
		return
	}
	cause, id := lock.EndReleased, ""
	if h.res.HandedOver != 0 {
		cause = lock.EndHandedOver
	}
	if h.r.Kind == lock.Semaphore {
		id = lock.PermitsOf(h.r.Owner)
	}
	b.watching.Ended(h.r.Name, cause, h.r.Fence, id)
}
