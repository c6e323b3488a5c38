package memstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

type reading struct {
	fence   lock.Fence
	expires time.Time
}

// reads is the first reader by name, and when the last hold of a reader ends.
func (h *hold) reads() (first lock.Owner, last time.Time) {
	for o, r := range h.readers {
		if first == "" || o < first {
			first = o
		}
		last = laterOf(last, r.expires)
	}
	return first, last
}

// checkRead lets a reader in beside other readers unless a writer waits, and beside a writer that is c.WriteOwner.
func (w *work) checkRead(e *entry, c lock.Claim) error {
	_, left, held := e.holder(w.now)
	switch {
	case e.readers[c.Owner] != nil || e.alone(lock.Write, c.WriteOwner):
		return nil
	case e.owner != "":
		return &lock.HeldError{RetryAfter: left, HeldBy: e.owner}
	case e.wish != "":
		wait := e.wishUntil.Sub(w.now)
		if held {
			wait = min(wait, left)
		}
		return &lock.HeldError{RetryAfter: wait, HeldBy: e.wish}
	}
	return nil
}

func (w *work) takeRead(e *entry, c lock.Claim) lock.Grant {
	r := e.readers[c.Owner]
	if r == nil {
		r = &reading{fence: w.mint(e, c.Fence)}
		if e.shared = true; e.readers == nil {
			e.readers = make(map[lock.Owner]*reading)
		}
		e.readers[c.Owner] = r
	}
	later(&e.expires, w.now, c.TTL)
	return lock.Grant{Fence: r.fence, TTL: later(&r.expires, w.now, c.TTL)}
}

// releaseRead frees the name with the last reader. While there are other readers, the lock ends when the last of them
// does. A writer keeps its hold.
func (w *work) releaseRead(e *entry, r lock.Return) (res lock.Returned, err error) {
	reader := e.readers[r.Owner]
	switch {
	case reader == nil:
		return res, lock.ErrNotHeld
	case r.Fence != 0 && r.Fence != reader.fence:
		return res, lock.ErrStale
	}
	w.ended(e, lock.EndReleased, reader.fence)
	delete(e.readers, r.Owner)
	if e.owner == "" && w.drain(e) {
		w.told = true
		w.freed(e, r.Kind)
	}
	return res, nil
}

// drain has the lock end with the last reader, and says whether there is none and the name is free.
func (w *work) drain(e *entry) (free bool) {
	if _, e.expires = e.reads(); len(e.readers) == 0 {
		e.hold = hold{}
	}
	return !e.held()
}

// renewRead is verbs.renew for Read.
func (w *work) renewRead(e *entry, r lock.Renewal) (left time.Duration, there bool) {
	reader := e.readers[r.Owner]
	if reader == nil || r.Fence > reader.fence {
		return 0, false
	}
	if r.TTL > 0 {
		left = later(&reader.expires, w.now, r.TTL)
		later(&e.expires, w.now, r.TTL)
	}
	return left, true
}
