package session

import (
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// Watch has the session told of each end of a hold of a name, from the answer on. The answer is Done or Failed.
func (s *Session) Watch(id uint64, name string) {
	s.Begin(id, s.of.cfg.CheckName(name), func() error { return s.watch(id, name) })
}

// watch holds the mutex: what is told before the answer is of no interest.
func (s *Session) watch(id uint64, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, already := s.watched[name]
	if who := s.opening.Identity; who != nil {
		if err := who.MayLook(name); err != nil {
			return err
		}
	}
	switch most := s.of.cfg.Limits.WatchesPerSession; {
	case s.ended:
		return ErrSessionExpired
	case !already && len(s.watched) >= most:
		return s.of.cfg.Denied("watches", most)
	case !already:
		if err := s.use.Take(limits.UseWatches, 1); err != nil {
			return err
		}
	}
	if !already {
		s.Spend(limits.Watching)
	}
	s.watched[name] = struct{}{}
	s.of.cfg.Watching.Watch(name, s, id)
	return nil
}

// Unwatch takes a Watch back. It is no error if there is none.
func (s *Session) Unwatch(id uint64, name string) {
	s.Begin(id, s.of.cfg.CheckName(name), func() error {
		s.unwatch(name)
		s.Tell(Done{ID: id})
		return nil
	})
}

func (s *Session) unwatch(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatchLocked(name)
}

func (s *Session) unwatchLocked(name string) {
	if _, there := s.watched[name]; there {
		delete(s.watched, name)
		s.use.Give(limits.UseWatches, 1)
	}
	s.of.cfg.Watching.Unwatch(name, s)
}

// Tenant implements watching.Watcher.
func (s *Session) Tenant() lock.Tenant { return s.Client().Tenant }

// Watching implements watching.Watcher.
func (s *Session) Watching(id uint64) { s.Tell(Done{ID: id}) }

// Unlocked implements watching.Watcher.
func (s *Session) Unlocked(name string, e watching.End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, still := s.watched[name]; still {
		s.tellLocked(Unlocked{Name: name, Cause: e.Cause, Fence: e.Fence, Hold: e.Hold, Merged: e.Merged})
	}
}
