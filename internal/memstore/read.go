package memstore

import (
	"maps"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// reading is the hold of one reader.
type reading struct {
	fence   lock.Fence
	expires time.Time
}

// reads is the hold of an owner that reads, or nil.
func (h *hold) reads(o lock.Owner, now time.Time) *reading {
	if r := h.readers[o]; r != nil && now.Before(r.expires) {
		return r
	}
	return nil
}

// alive is the first reader by name whose hold has not ended, how many there are, and for how long the last one reads.
func (h *hold) alive(now time.Time) (first lock.Owner, n uint32, left time.Duration) {
	for o := range h.readers {
		r := h.reads(o, now)
		if r == nil {
			continue
		}
		if n++; n == 1 || o < first {
			first = o
		}
		left = max(left, r.expires.Sub(now))
	}
	return first, n, left
}

// checkRead lets a reader in beside other readers unless a writer waits, and beside a writer that is its own.
func (w *work) checkRead(e *entry, c lock.Claim) error {
	_, left, held := e.holder(w.now)
	switch {
	case e.reads(c.Owner, w.now) != nil || e.alone(lock.Write, c.WriteOwner):
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
	r := e.reads(c.Owner, w.now)
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

// releaseRead frees the name with the last reader. While there are others it ends with the last of them; what a writer
// has is not touched.
func (w *work) releaseRead(e *entry, r lock.Return) (res lock.Returned, err error) {
	reader := e.reads(r.Owner, w.now)
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

// drain forgets readers that have ended, and says whether that leaves nobody, so that the name is free.
func (w *work) drain(e *entry) (free bool) {
	maps.DeleteFunc(e.readers, func(_ lock.Owner, r *reading) bool { return !w.now.Before(r.expires) })
	_, n, left := e.alive(w.now)
	if n == 0 {
		e.hold = hold{}
		return true
	}
	e.expires = w.now.Add(left)
	return false
}

// renewRead says whether the hold is there, and for how long.
func (w *work) renewRead(e *entry, r lock.Renewal) (left time.Duration, there bool) {
	reader := e.reads(r.Owner, w.now)
	if reader == nil || r.Fence > reader.fence {
		return 0, false
	}
	if r.TTL > 0 {
		left = later(&reader.expires, w.now, r.TTL)
		later(&e.expires, w.now, r.TTL)
	}
	return left, true
}
