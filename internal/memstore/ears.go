package memstore

import (
	"maps"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/broker"
)

// ears knows who listens. Its mutex is never held while a listener is called, nor together with Store.mu.
type ears struct {
	mu       sync.Mutex // guards the fields below
	last     uint64
	byName   map[string]map[uint64]func(broker.Notice)
	byForced map[uint64]func(string)
}

// Listen implements broker.Store. The first notice comes from a goroutine of its own, because the caller may hold
// what notify needs; the others come from within the operation that causes them.
func (s *Store) Listen(name string, _ broker.Kind, notify func(broker.Notice)) (stop func()) {
	stop = s.ears.add(name, notify)
	go notify(broker.Notice{What: broker.NoticeListening})
	return stop
}

// ListenForced implements broker.Store. There are no interruptions in memory.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	return s.ears.addForced(notify)
}

func (e *ears) add(name string, notify func(broker.Notice)) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byName == nil {
		e.byName = make(map[string]map[uint64]func(broker.Notice))
	}
	if e.byName[name] == nil {
		e.byName[name] = make(map[uint64]func(broker.Notice))
	}
	e.last++
	id := e.last
	e.byName[name][id] = notify
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

// released tells the listeners of a name and says how many there are.
func (e *ears) released(name string) int {
	e.mu.Lock()
	ls := slices.Collect(maps.Values(e.byName[name]))
	e.mu.Unlock()
	for _, notify := range ls {
		notify(broker.Notice{What: broker.NoticeReleased})
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
