package broker

import (
	"context"
	"errors"
	"time"
)

// watch tells the sessions that watch a name when it is unlocked. One goroutine per watched name looks for what is
// not published: the expiry of a lease.
type watch struct {
	name string
	stop context.CancelFunc
	wake chan struct{} // size 1

	// Guarded by Broker.mu:
	sessions map[*Session]struct{}
	held     bool         // as last seen, or assumed
	looked   bool         // once, so that what happens from now on is noticed
	asked    []watchAsked // to be answered then
}

// watchAsked is a request to watch a name that was not looked at yet.
type watchAsked struct {
	sess *Session
	id   uint64
}

// freeLookInterval is how often a watched name that is free is looked at. A lock taken and expired in between is
// found by its fence.
const freeLookInterval = 5 * time.Second

// Watch tells the session from the answer on when a name is unlocked. The answer is Done or Failed.
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

// observe looks at a watched name whenever it may have changed without a message.
func (b *Broker) observe(ctx context.Context, w *watch) {
	stop := b.store.Listen(w.name, 0, func(n Notice) { b.noticed(w, n) })
	defer stop()
	var seen Fence
	var before bool
	for ctx.Err() == nil {
		st, err := b.store.Look(ctx, w.name)
		pause := freeLookInterval
		switch {
		case errors.Is(err, ErrKindMismatch):
			b.unseen(w)
		case err != nil:
			b.unseen(w)
			pause = retryPause * 10
		default:
			b.looked(w, st, before && st.Fence != seen)
			seen, before = st.Fence, true
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
	if n.What == NoticeReleased {
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
	w.answerLocked()
}

// unseen takes note that a name could not be looked at. If that is the first look it counts as held: whoever watches
// it would rather hear of an unlock that may not have been than miss one.
func (b *Broker) unseen(w *watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.held = w.held || !w.looked
	w.answerLocked()
}

// answerLocked answers those who waited for the first look.
func (w *watch) answerLocked() {
	asked := w.asked
	w.looked, w.asked = true, nil
	for _, a := range asked {
		a.sess.emitLocked(Done{ID: a.id})
	}
}

func (b *Broker) unlockedLocked(w *watch) {
	for s := range w.sessions {
		s.emitLocked(Unlocked{Name: w.name})
	}
}
