package memstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// registry has the functions to call for each name. Its mutex is never held while one is called.
type registry[F any] struct {
	mu     sync.Mutex // guards the field below
	byName map[string]map[*F]struct{}
}

func (r *registry[F]) add(name string, f F) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = make(map[string]map[*F]struct{})
	}
	if r.byName[name] == nil {
		r.byName[name] = make(map[*F]struct{})
	}
	r.byName[name][&f] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if delete(r.byName[name], &f); len(r.byName[name]) == 0 {
			delete(r.byName, name)
		}
	}
}

func (r *registry[F]) of(name string) (all []F) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for f := range r.byName[name] {
		all = append(all, *f)
	}
	return all
}

// listener listens to a name with a kind, or watches a name whatever its kind is.
type listener struct {
	kind   lock.Kind // 0: it watches
	notify func(lock.Notice)
}

// message is a notice for listeners or watchers of a name.
type message struct {
	name   string
	kind   lock.Kind // of those who listen; 0 for those who watch
	notice lock.Notice
}

// sameEars is the kind that stands for all kinds with the same listeners: Read for Write, too.
func sameEars(kind lock.Kind) lock.Kind {
	if kind == lock.Write {
		return lock.Read
	}
	return kind
}

// say has the listeners of a kind, or with 0 the watchers, told a notice at the end of the operation.
func (w *work) say(e *entry, kind lock.Kind, n lock.Notice) {
	w.news = append(w.news, message{e.name, sameEars(kind), n})
}

// ended tells the watchers of a name that a hold ended.
func (w *work) ended(e *entry, cause lock.EndCause, f lock.Fence) {
	w.say(e, 0, lock.Notice{What: lock.NoticeEnded, Cause: cause, Fence: f})
}

// changed tells the watchers of a name to look.
func (w *work) changed(e *entry) { w.say(e, 0, lock.Notice{What: lock.NoticeChanged}) }

// freed tells those who wait that it is worth another attempt. With Fair it tells only the next waiter, and returns
// that.
func (w *work) freed(e *entry, kind lock.Kind) (turn lock.Owner) {
	n := lock.Notice{What: lock.NoticeReleased}
	if kind == lock.Fair {
		if turn = e.queue.head(); turn == "" {
			kind = lock.Exclusive // without waiters, the listeners of Exclusive hear it
		} else {
			e.queue.moved = false
			n.For = turn
		}
	}
	w.say(e, kind, n)
	return turn
}

// tell passes a message on and says how many heard it.
func (s *Store) tell(m message) (heard int) {
	for _, l := range s.listeners.of(m.name) {
		if sameEars(l.kind) == m.kind {
			heard++
			l.notify(m.notice)
		}
	}
	return heard
}

// Listen implements lock.Store. The first notice comes from a goroutine of its own, because the caller may hold a mutex
// that notify locks; the others come from within the operation that causes them.
func (s *Store) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	stop = s.listeners.add(name, listener{kind, notify})
	go notify(lock.Notice{What: lock.NoticeListening})
	return stop
}

// ListenTurn implements lock.Store. There are no other programs here.
func (s *Store) ListenTurn(string, lock.Owner, func(lock.Notice)) (stop func()) { return func() {} }

// Watch implements lock.Store. Like Listen, but notify is called under Store.mu.
func (s *Store) Watch(name string, notify func(lock.Notice)) (stop func()) {
	return s.Listen(name, 0, notify)
}

// ListenForced implements lock.Store. There are no interruptions in memory.
func (s *Store) ListenForced(notify func(name string)) (stop func()) { return s.forced.add("", notify) }

// Publish implements lock.Peers.
func (s *Store) Publish(ctx context.Context, topic string, message []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, fmt.Errorf("publish to %q: %w: %w", topic, lock.ErrUnavailable, context.Cause(ctx))
	}
	subscribers := s.peers.of(topic)
	for _, notify := range subscribers {
		notify(message)
	}
	return len(subscribers), nil
}

// Subscribe implements lock.Peers.
func (s *Store) Subscribe(topic string, notify func(message []byte)) (stop func()) {
	return s.peers.add(topic, notify)
}
