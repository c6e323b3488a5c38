package memstore

import (
	"maps"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What tests do to a Store from outside, as an operator could to a Redis.

// alter does something to a name, and tells the watchers to look.
func (s *Store) alter(name string, do func(e *entry, now time.Time)) {
	w := s.enter(1)
	defer w.leave()
	e := w.find(name)
	do(e, w.now)
	w.changed(e)
}

// Expire ends whatever is under a name, as if its time had passed or somebody had deleted its key. Waiters go on
// waiting.
func (s *Store) Expire(name string) { s.alter(name, func(e *entry, _ time.Time) { e.clear() }) }

// ExpireHold ends the hold of one of several owners, of a reader or of permits, as if its time had passed.
func (s *Store) ExpireHold(name string, o lock.Owner) {
	s.alter(name, func(e *entry, now time.Time) {
		if r := e.readers[o]; r != nil {
			r.expires = now
		}
		if e.permits == nil {
			return
		}
		for id := range e.permits.out {
			if id.owner == o {
				e.permits.out[id], e.permits.next = now, now
			}
		}
	})
}

// ExpirePlace ends the place of a waiter as if its time had passed.
func (s *Store) ExpirePlace(name string, o lock.Owner) {
	s.alter(name, func(e *entry, now time.Time) {
		if e.wish == o {
			e.wish = ""
		}
		if !e.queue.until[o].IsZero() {
			e.queue.until[o] = now
		}
	})
}

// Occupy puts something that is no lock under a name, in place of a hold if there is one.
func (s *Store) Occupy(name string) {
	s.alter(name, func(e *entry, _ time.Time) {
		e.clear()
		e.occupied = true
	})
}

// Lose forgets everything, like a server that restarts without its data.
func (s *Store) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		s.floor = max(s.floor, e.fence)
	}
	s.lost = s.floor
	clear(s.entries)
	s.queue = nil
	s.listeners.mu.Lock()
	names := slices.Collect(maps.Keys(s.listeners.byName))
	s.listeners.mu.Unlock()
	for _, name := range names {
		s.tell(message{name: name, notice: lock.Notice{What: lock.NoticeFlushed}})
	}
}
