package memstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What tests do to a Store from outside, as an operator could to a Redis.

// Expire ends what is under a name as if its time had passed, or as if somebody had deleted its key, whatever it is.
// Who waits goes on waiting.
func (s *Store) Expire(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.ears.tell(message{name, toWatchers, lock.Notice{What: lock.NoticeChanged}})
	if e := s.entries[name]; e != nil {
		e.clear()
	}
}

// ExpireHold ends what one of several owners holds, a reader or one who has permits, as if its time had passed.
func (s *Store) ExpireHold(name string, o lock.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.ears.tell(message{name, toWatchers, lock.Notice{What: lock.NoticeChanged}})
	e := s.entries[name]
	if e == nil {
		return
	}
	now := time.Now()
	if e.shared != nil && e.shared.readers[o] != nil {
		for i := range e.shared.readers[o].holds {
			e.shared.readers[o].holds[i] = now
		}
	}
	if e.permits == nil {
		return
	}
	for id := range e.permits.out {
		if id.owner == o {
			e.permits.out[id], e.permits.next = now, now
		}
	}
}

// ExpirePlace ends the place of a waiter as if its time had passed.
func (s *Store) ExpirePlace(name string, o lock.Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[name]
	if e == nil {
		return
	}
	if e.wish == o {
		e.wish = ""
	}
	if e.line != nil && e.line.places[o] != nil {
		placeOf(e.line.places[o]).until = time.Now()
	}
}

// Lose forgets everything, as a server does that restarts without its data.
func (s *Store) Lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.ears.flushed()
	for _, e := range s.entries {
		s.floor = max(s.floor, e.fence)
	}
	s.lost = s.floor
	clear(s.entries)
	clear(s.records)
	s.hand = nil
}

// Occupy puts something under a name that is no lock, in place of a hold if there is one.
func (s *Store) Occupy(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.ears.tell(message{name, toWatchers, lock.Notice{What: lock.NoticeChanged}})
	e := s.entryLocked(name, time.Now())
	e.clear()
	e.occupied = true
}

// Size is the number of names the Store remembers, held or not.
func (s *Store) Size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}
