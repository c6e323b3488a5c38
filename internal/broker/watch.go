package broker

import (
	"context"

	"github.com/lockd-io/lockd/internal/lock"
)

// watch tells the sessions that watch a name of each end of a hold, once. One goroutine per watched name looks for what
// nobody tells, such as a lease that runs out; see observe.go.
type watch struct {
	name string
	stop context.CancelFunc
	wake chan struct{} // size 1

	// Guarded by Broker.mu:
	sessions map[*Session]struct{}
	looked   bool         // once, so that what happens from now on is noticed
	asked    []watchAsked // to be answered then
	sightings
}

// watchAsked is a request to watch a name that was not looked at yet.
type watchAsked struct {
	sess *Session
	id   uint64
}

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
	if !already {
		w := b.watchLocked(name)
		w.sessions[s] = struct{}{}
		s.watched[name] = w
	}
	if w := s.watched[name]; !w.looked {
		w.asked = append(w.asked, watchAsked{s, id})
		return
	}
	s.emitLocked(Done{ID: id})
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
	if w := s.watched[name]; w != nil {
		b.unwatchLocked(s, w)
	}
	s.emitLocked(Done{ID: id})
}

func (b *Broker) watchLocked(name string) *watch {
	w := b.watches[name]
	if w == nil {
		ctx, stop := context.WithCancel(b.ctx)
		w = &watch{name: name, stop: stop, wake: make(chan struct{}, 1), sessions: make(map[*Session]struct{})}
		w.deaf = true
		b.watches[name] = w
		b.wg.Go(func() { b.observe(ctx, w) })
	}
	return w
}

func (b *Broker) unwatchLocked(s *Session, w *watch) {
	delete(s.watched, w.name)
	delete(w.sessions, s)
	if len(w.sessions) == 0 {
		w.stop()
		delete(b.watches, w.name)
		w.answerLocked() // there may be no look any more
	}
}

// answerLocked answers those who waited for the first look.
func (w *watch) answerLocked() {
	asked := w.asked
	w.looked, w.asked = true, nil
	for _, a := range asked {
		a.sess.emitLocked(Done{ID: a.id})
	}
}

// tellLocked tells the end of a hold. Before the first look nothing is promised.
func (w *watch) tellLocked(c lock.EndCause, f lock.Fence) {
	if !w.looked {
		return
	}
	for s := range w.sessions {
		s.emitLocked(Unlocked{Name: w.name, Cause: c, Fence: f})
	}
}
