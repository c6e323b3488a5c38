package memstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// readWrite is a read-write lock that is held by readers, or by a writer, or by a writer and readers beside it.
type readWrite struct {
	// expires is when the whole lock ends: with a writer, when its hold does.
	expires time.Time
	// readers may have ended before that. They are here until somebody cares.
	readers map[lock.Owner]*reading
	// writer is empty if there is none. The two fields below belong to it.
	writer lock.Owner
	count  uint32
	fence  lock.Fence
}

// reading is the hold of one reader. It may read several times over, and reads as long as the longest of those holds
// lasts.
type reading struct {
	fence lock.Fence
	holds []time.Time // when each ends
}

// expires is when the last of the holds ends.
func (r *reading) expires() time.Time {
	last := r.holds[0]
	for _, end := range r.holds[1:] {
		last = laterOf(last, end)
	}
	return last
}

func (r *reading) count() uint32 { return uint32(len(r.holds)) } //nolint:gosec // it was given as one

// end has all holds that have not ended end at a time.
func (r *reading) end(now, at time.Time) {
	for i := range r.holds {
		if now.Before(r.holds[i]) {
			r.holds[i] = at
		}
	}
}

// resize makes it so many holds. A new one has ended so far.
func (r *reading) resize(count uint32) {
	for r.count() < count {
		r.holds = append(r.holds, time.Time{})
	}
	r.holds = r.holds[:count]
}

// writtenBy says whether an owner has the write hold.
func (l *readWrite) writtenBy(o lock.Owner) bool {
	return l != nil && l.writer != "" && l.writer == o
}

// reads is the read hold of an owner, or nil.
func (l *readWrite) reads(o lock.Owner, now time.Time) *reading {
	if l == nil {
		return nil
	}
	if r := l.readers[o]; r != nil && now.Before(r.expires()) {
		return r
	}
	return nil
}

// single is the only holder, if there is one only.
func (l *readWrite) single() lock.Owner {
	switch {
	case l.writer != "" && len(l.readers) == 0:
		return l.writer
	case l.writer == "" && len(l.readers) == 1:
		for o := range l.readers {
			return o
		}
	}
	return ""
}

// alive is the first reader by name whose hold has not ended, how many there are, and for how long the last one reads.
func (l *readWrite) alive(now time.Time) (first lock.Owner, n uint32, left time.Duration) {
	for o, r := range l.readers {
		if !now.Before(r.expires()) {
			continue
		}
		if n++; n == 1 || o < first {
			first = o
		}
		left = max(left, r.expires().Sub(now))
	}
	return first, n, left
}

// checkRead lets a reader in beside other readers unless a writer waits, and beside a writer that is its own.
func (w *work) checkRead(e *entry, c lock.Claim) error {
	l := e.shared
	_, left, held := e.holder(w.now)
	switch {
	case l.reads(c.Owner, w.now) != nil || c.Beside != "" && l.writtenBy(c.Beside):
		return nil
	case e.owner != "":
		return &lock.HeldError{RetryAfter: left, HeldBy: e.owner}
	case l != nil && l.writer != "":
		return &lock.HeldError{RetryAfter: left, HeldBy: l.writer}
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
	r := e.shared.reads(c.Owner, w.now)
	if r == nil {
		if e.shared == nil {
			e.shared = &readWrite{}
		}
		if e.shared.readers == nil {
			e.shared.readers = make(map[lock.Owner]*reading)
		}
		r = &reading{fence: w.mintLocked(e, w.now, c.Fence)}
		e.shared.readers[c.Owner] = r
	}
	return w.readOn(e, r, 1, c.TTL)
}

// readOn has a reader hold the lock at least so often and prolongs that hold. It takes no hold away: a claim of an
// earlier hold may be executed late.
func (w *work) readOn(e *entry, r *reading, count uint32, ttl time.Duration) lock.Grant {
	r.resize(max(count, r.count()))
	e.fenceUntil = w.now.Add(w.fenceTTL)
	left := later(&r.holds[count-1], w.now, ttl)
	later(&e.shared.expires, w.now, ttl)
	return lock.Grant{Fence: r.fence, TTL: left}
}

func (w *work) nestRead(e *entry, c lock.Claim) (lock.Grant, error) {
	r := e.shared.reads(c.Owner, w.now)
	switch {
	case r == nil:
		return lock.Grant{}, lock.ErrNotHeld
	case r.fence != c.Fence:
		return lock.Grant{}, lock.ErrStale
	}
	return w.readOn(e, r, c.Count, c.TTL), nil
}

// releaseRead frees the name with the last reader. While there are others it ends with the last of them; what a writer
// has is not touched.
func (w *work) releaseRead(e *entry, r lock.Return) (res lock.Returned, told bool, err error) {
	l := e.shared
	hold := l.reads(r.Owner, w.now)
	switch {
	case hold == nil:
		return res, false, lock.ErrNotHeld
	case r.Fence != 0 && r.Fence != hold.fence:
		return res, false, lock.ErrStale
	}
	if r.Remaining > 0 {
		hold.resize(min(r.Remaining, hold.count()))
	}
	if r.Remaining == 0 || !w.now.Before(hold.expires()) {
		w.ended(e, lock.EndReleased, hold.fence)
		delete(l.readers, r.Owner)
	}
	if l.writer != "" || !w.drain(e) {
		return res, false, nil
	}
	w.say(e, onShared, lock.Notice{What: lock.NoticeReleased})
	return res, true, nil
}

// drain forgets readers that have ended, and says whether that leaves nobody, so that the name is free.
func (w *work) drain(e *entry) (free bool) {
	for o, r := range e.shared.readers {
		if !w.now.Before(r.expires()) {
			delete(e.shared.readers, o)
		}
	}
	_, n, left := e.shared.alive(w.now)
	if n == 0 {
		e.shared = nil
		return true
	}
	e.shared.expires = w.now.Add(left)
	return false
}

// renewRead says whether the hold is there, and for how long.
func (w *work) renewRead(e *entry, r lock.Renewal) (left time.Duration, there bool) {
	hold := e.shared.reads(r.Owner, w.now)
	if hold == nil || r.Fence != 0 && r.Fence != hold.fence {
		return 0, false
	}
	if r.TTL > 0 {
		left = later(&hold.holds[min(max(r.Level, 1), hold.count())-1], w.now, r.TTL)
		later(&e.shared.expires, w.now, r.TTL)
	}
	return left, true
}

// checkWrite refuses a claim beside anybody who has not ended. A refused one keeps new readers away for as long as its
// place lasts.
func (w *work) checkWrite(e *entry, c lock.Claim) error {
	l := e.shared
	held := lock.HeldError{}
	switch {
	case e.owner != "":
		held.HeldBy, held.RetryAfter, _ = e.holder(w.now)
	case l == nil || l.writtenBy(c.Owner):
		return nil
	case l.writer != "":
		held.HeldBy, held.RetryAfter = l.writer, l.expires.Sub(w.now)
	default:
		first, n, left := l.alive(w.now)
		if n == 0 {
			return nil
		}
		held.HeldBy, held.RetryAfter = first, left
	}
	if c.Place > 0 {
		if e.wish == "" {
			e.wish, e.wishUntil = c.Owner, w.now
		}
		later(&e.wishUntil, w.now, c.Place)
	}
	return &held
}

func (w *work) takeWrite(e *entry, c lock.Claim) lock.Grant {
	if !e.shared.writtenBy(c.Owner) {
		return w.write(e, lock.Successor{Owner: c.Owner, TTL: c.TTL}, c.Fence)
	}
	if e.wish == c.Owner {
		e.wish = ""
	}
	return w.writeOn(e, 1, c.TTL)
}

// write gives a free name to a writer. Other writers that wait say so again, so readers come in between.
func (w *work) write(e *entry, to lock.Successor, least lock.Fence) lock.Grant {
	e.wish = ""
	e.shared = &readWrite{writer: to.Owner, count: 1, fence: w.mintLocked(e, w.now, least), expires: w.now.Add(to.TTL)}
	return lock.Grant{Fence: e.shared.fence, TTL: to.TTL}
}

// writeOn sets how often the writer holds the lock and prolongs its hold.
func (w *work) writeOn(e *entry, count uint32, ttl time.Duration) lock.Grant {
	e.shared.count = count
	e.fenceUntil = w.now.Add(w.fenceTTL)
	return lock.Grant{Fence: e.shared.fence, TTL: later(&e.shared.expires, w.now, ttl)}
}

func (w *work) nestWrite(e *entry, c lock.Claim) (lock.Grant, error) {
	switch {
	case !e.shared.writtenBy(c.Owner):
		return lock.Grant{}, lock.ErrNotHeld
	case e.shared.fence != c.Fence:
		return lock.Grant{}, lock.ErrStale
	}
	return w.writeOn(e, c.Count, c.TTL), nil
}

// releaseWrite frees the name, hands it over, or leaves it to those who read beside the writer.
func (w *work) releaseWrite(e *entry, r lock.Return) (res lock.Returned, told bool, err error) {
	l := e.shared
	if !l.writtenBy(r.Owner) {
		if r.Remaining > 0 {
			return res, false, lock.ErrNotHeld
		}
		w.unwish(e, r.Owner)
		if r.Next != nil && l.writtenBy(r.Next.Owner) {
			later(&l.expires, w.now, r.Next.TTL)
			return lock.Returned{HandedOver: l.fence}, false, nil // the hand-over was done before
		}
		return res, false, lock.ErrNotHeld
	}
	stale := r.Fence != 0 && r.Fence != l.fence
	if r.Remaining > 0 {
		if stale {
			return res, false, lock.ErrStale
		}
		l.count = r.Remaining
		return res, false, nil
	}
	if e.wish == r.Owner {
		e.wish = ""
	}
	if stale {
		return res, false, lock.ErrStale
	}
	fence := l.fence
	l.writer, l.count, l.fence = "", 0, 0
	if len(l.readers) == 0 && r.Next != nil {
		w.ended(e, lock.EndHandedOver, fence)
		return lock.Returned{HandedOver: w.write(e, *r.Next, r.Next.Fence).Fence}, false, nil
	}
	w.ended(e, lock.EndReleased, fence)
	w.drain(e)
	w.say(e, onShared, lock.Notice{What: lock.NoticeReleased})
	return res, true, nil
}

// unwish lets readers in again if it was this writer that kept them away.
func (w *work) unwish(e *entry, o lock.Owner) {
	if e.wish != "" && e.wish == o {
		e.wish = ""
		w.say(e, onShared, lock.Notice{What: lock.NoticeReleased})
	}
}

func (w *work) forceShared(e *entry, kind lock.Kind) (held bool, err error) {
	switch l := e.shared; {
	case e.owner != "":
		return false, lock.ErrKindMismatch
	case l == nil || (l.writer != "") != (kind == lock.Write):
		return false, nil
	}
	if e.shared.writer != "" {
		w.ended(e, lock.EndForced, e.shared.fence)
	}
	for o, r := range e.shared.readers {
		if e.shared.reads(o, w.now) != nil {
			w.ended(e, lock.EndForced, r.fence)
		}
	}
	e.shared = nil
	w.say(e, onShared, lock.Notice{What: lock.NoticeReleased})
	return true, nil
}
