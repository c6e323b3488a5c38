package broker

import (
	"context"
	"errors"
	"time"
)

// watch tells the sessions that watch a name when it is unlocked. One goroutine per watched name looks for what is
// not published: the expiry of a lease.
type watch struct {
	name     string
	stop     context.CancelFunc
	wake     chan struct{}         // size 1
	sessions map[*Session]struct{} // guarded by Broker.mu
	held     bool                  // as last seen; guarded by Broker.mu
}

// freeLookInterval is how often a watched name that is free is looked at. A lock taken and expired in between is
// found by its fence.
const freeLookInterval = 5 * time.Second

// Watch tells the session from now on when a name is unlocked. The answer is Done or Failed.
func (s *Session) Watch(id uint64, name string) {
	b := s.b
	b.mu.Lock()
	defer b.mu.Unlock()
	err := s.admitLocked(id)
	if err == nil {
		err = checkName(name, b.cfg.Limits.NameBytes)
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
	}
}

// observe looks at a watched name whenever it may have changed without a message.
func (b *Broker) observe(ctx context.Context, w *watch) {
	stop := b.store.Listen(w.name, func(n Notice) { b.noticed(w, n) })
	defer stop()
	var seen Fence
	for ctx.Err() == nil {
		st, err := b.store.Look(ctx, w.name)
		pause := freeLookInterval
		switch {
		case errors.Is(err, ErrKindMismatch):
		case err != nil:
			pause = retryPause * 10
		default:
			b.looked(w, st, seen != 0 && st.Fence != seen)
			seen = st.Fence
			if st.Held && st.TTL != NoTTL {
				pause = min(st.TTL+time.Millisecond, pollInterval)
			}
		}
		timer := time.NewTimer(max(pause, time.Millisecond))
		select {
		case <-timer.C:
		case <-w.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// noticed passes a published release on, and has the name looked at after an interruption.
func (b *Broker) noticed(w *watch, n Notice) {
	if n == NoticeReleased {
		b.mu.Lock()
		b.unlockedLocked(w)
		w.held = false
		b.mu.Unlock()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// looked compares a name's state with what was seen before.
func (b *Broker) looked(w *watch, st State, newFence bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !st.Held && (w.held || newFence) {
		b.unlockedLocked(w)
	}
	w.held = st.Held
}

func (b *Broker) unlockedLocked(w *watch) {
	for s := range w.sessions {
		s.emitLocked(Unlocked{Name: w.name})
	}
}
