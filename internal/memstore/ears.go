package memstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// channel is how a message reaches those it is for. Each kind has one.
type channel uint8

const (
	onPlain    channel = iota + 1 // exclusive locks, and fair ones that nobody queues for
	onFair                        // fair locks that somebody queues for
	onShared                      // read-write locks
	onPermits                     // semaphores
	toWatchers                    // whatever the kind
)

// heardBy says whether who listens for a kind hears a message there.
func (c channel) heardBy(kind lock.Kind) bool {
	switch kind {
	case lock.Fair:
		return c == onFair
	case lock.Read, lock.Write:
		return c == onShared
	case lock.Semaphore:
		return c == onPermits
	default:
		return c == onPlain
	}
}

// message is what listeners of a name are told.
type message struct {
	name   string
	on     channel
	notice lock.Notice
}

// say tells the listeners of a name something at the end of the operation.
func (w *work) say(e *entry, on channel, n lock.Notice) {
	w.news = append(w.news, message{e.name, on, n})
}

// ended tells those who watch a name that a hold of it ended.
func (w *work) ended(e *entry, cause lock.EndCause, f lock.Fence) {
	w.endedHold(e, lock.Notice{Cause: cause, Fence: f})
}

func (w *work) endedHold(e *entry, n lock.Notice) {
	n.What = lock.NoticeEnded
	w.news = append(w.news, message{e.name, toWatchers, n})
}

// changed tells those who watch a name to look.
func (w *work) changed(e *entry) {
	w.news = append(w.news, message{e.name, toWatchers, lock.Notice{What: lock.NoticeChanged}})
}

// ears knows who listens. Its mutex is never held while a listener is called.
type ears struct {
	mu       sync.Mutex // guards the fields below
	last     uint64
	watchers map[string]map[uint64]func(lock.Notice)
	byName   map[string]map[uint64]ear
	byForced map[uint64]func(string)
}

// ear is one listener.
type ear struct {
	kind   lock.Kind
	notify func(lock.Notice)
}

// Listen implements lock.Store. The first notice comes from a goroutine of its own, because the caller may hold
// what notify needs; the others come from within the operation that causes them.
func (s *Store) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	stop = s.ears.add(name, ear{kind, notify})
	go notify(lock.Notice{What: lock.NoticeListening})
	return stop
}

// ListenTurn implements lock.Store. There are no other programs here.
func (s *Store) ListenTurn(string, lock.Owner, func(lock.Notice)) (stop func()) { return func() {} }

// Watch implements lock.Store. Like Listen, but notify is called under Store.mu.
func (s *Store) Watch(name string, notify func(lock.Notice)) (stop func()) {
	e := &s.ears
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers == nil {
		e.watchers = make(map[string]map[uint64]func(lock.Notice))
	}
	if e.watchers[name] == nil {
		e.watchers[name] = make(map[uint64]func(lock.Notice))
	}
	e.last++
	id := e.last
	e.watchers[name][id] = notify
	go notify(lock.Notice{What: lock.NoticeListening})
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.watchers[name], id)
		if len(e.watchers[name]) == 0 {
			delete(e.watchers, name)
		}
	}
}

// ListenForced implements lock.Store. There are no interruptions in memory.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	return s.ears.addForced(notify)
}

func (e *ears) add(name string, listener ear) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName == nil {
		e.byName = make(map[string]map[uint64]ear)
	}
	if e.byName[name] == nil {
		e.byName[name] = make(map[uint64]ear)
	}
	e.last++
	id := e.last
	e.byName[name][id] = listener
	return func() { e.remove(name, id) }
}

func (e *ears) remove(name string, id uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byName[name], id)
	if len(e.byName[name]) == 0 {
		delete(e.byName, name)
	}
}

func (e *ears) addForced(notify func(string)) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byForced == nil {
		e.byForced = make(map[uint64]func(string))
	}
	e.last++
	id := e.last
	e.byForced[id] = notify
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.byForced, id)
	}
}

// tell passes a message on and says how many listeners hear it.
func (e *ears) tell(m message) (heard int) {
	e.mu.Lock()
	if m.on == toWatchers {
		ws := slices.Collect(maps.Values(e.watchers[m.name]))
		e.mu.Unlock()
		for _, notify := range ws {
			notify(m.notice)
		}
		return 0
	}
	var ls []func(lock.Notice)
	for _, l := range e.byName[m.name] {
		if m.on.heardBy(l.kind) {
			ls = append(ls, l.notify)
		}
	}
	e.mu.Unlock()
	for _, notify := range ls {
		notify(m.notice)
	}
	return len(ls)
}

// forced tells those who listen for forced releases.
func (e *ears) forced(name string) {
	e.mu.Lock()
	ls := slices.Collect(maps.Values(e.byForced))
	e.mu.Unlock()
	for _, notify := range ls {
		notify(name)
	}
}

// flushed tells all who watch that everything was lost.
func (e *ears) flushed() {
	e.mu.Lock()
	names := slices.Collect(maps.Keys(e.watchers))
	e.mu.Unlock()
	for _, name := range names {
		e.tell(message{name, toWatchers, lock.Notice{What: lock.NoticeFlushed}})
	}
}
