package memstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// perName is how many entries an operation looks at for each of its names. For each name it adds one entry at most, so
// with two the sweep goes round faster than the number of entries grows, and dead entries stay fewer than the others.
const perName = 2

// find returns the entry of a name, a new one if there is none.
func (w *work) find(name string) *entry {
	e := w.entries[name]
	if e == nil {
		e = &entry{name: name}
		w.entries[name] = e
		w.queue = append(w.queue, e)
	}
	e.used = w.now
	e.refresh(w.now)
	if len(e.queue.order) > 0 {
		w.queued = append(w.queued, e)
	}
	return e
}

// sweepLocked looks at the next few entries and forgets those that are empty. It must come before the operation finds
// its own entries, because they may be among them. The fence of a forgotten entry raises the floor, so the next fence
// of the name is greater even if the clock was set back in between.
func (s *Store) sweepLocked(now time.Time, names int) {
	for range min(perName*names, len(s.queue)) {
		e := s.queue[0]
		s.queue[0], s.queue = nil, s.queue[1:]
		e.refresh(now)
		crowded := len(s.entries) > remember
		if crowded && e.permits != nil && !now.Add(lock.LimitLives).Before(e.permits.expires) {
			e.permits = nil // its limit is forgotten as well
		}
		if e.empty(now) && (crowded || e.fence == 0 || now.Sub(e.used) >= fenceTTL) {
			s.floor = max(s.floor, e.fence)
			delete(s.entries, e.name)
		} else {
			s.queue = append(s.queue, e)
		}
	}
}

// goneLocked says why a hold is not there.
func (s *Store) goneLocked(e *entry, r lock.Renewal) *lock.GoneError {
	f := r.Fence
	known := e.fence >= max(f, 1)
	forgotten := e.fence == 0 && f > s.lost && f <= s.floor
	lost := f <= s.lost && !r.Seen.IsZero() // whoever has taken the name since
	if (known || forgotten) && !lost {
		return &lock.GoneError{Reason: lock.LostForced}
	}
	return &lock.GoneError{Reason: lock.LostData}
}

// mint gives a name its next fence: max(last + 1, least), with the time in µs in place of a least of 0.
func (w *work) mint(e *entry, least lock.Fence) lock.Fence {
	last := e.fence
	if last == 0 {
		last = w.floor
	}
	if least == 0 {
		least = lock.Fence(w.now.UnixMicro())
	}
	e.fence = max(last+1, least)
	return e.fence
}
