package memstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// entry is all that is known of a name. Store.mu guards it.
type entry struct {
	name string
	// fence is the last one given out, 0 before the first.
	fence lock.Fence
	// fenceUntil is when the fence of a free name may be forgotten.
	fenceUntil time.Time

	// What is under the name: at most one of the following, until refresh finds that its time has passed.

	// occupied: the name is in use for something that is no lock. Only tests do that.
	occupied bool
	// owner holds the name exclusively, fair or not; empty if nobody does. The two fields below belong to it.
	owner   lock.Owner
	count   uint32
	expires time.Time
	// shared is a read-write lock that is held.
	shared *readWrite
	// permits is a semaphore.
	permits *semaphore

	// Who waits, whatever is under the name.

	// line is where fair waiters have their places.
	line *line
	// wish is a writer that keeps new readers away until its place ends.
	wish      lock.Owner
	wishUntil time.Time

	// prev and next link all entries to the ring that sweep goes round.
	prev, next *entry
}

// refresh drops what has ended by itself. Whoever finds an entry does that first.
func (e *entry) refresh(now time.Time) {
	if e.owner != "" && !now.Before(e.expires) {
		e.free()
	}
	if e.shared != nil && !now.Before(e.shared.expires) {
		e.shared = nil
	}
	if e.permits != nil && !now.Before(e.permits.expires) {
		e.permits = nil
	}
	if e.wish != "" && !now.Before(e.wishUntil) {
		e.wish = ""
	}
}

// empty says whether there is nothing in an entry besides its fence.
func (e *entry) empty(now time.Time) bool {
	idle := !e.occupied && e.owner == "" && e.shared == nil && e.permits == nil
	return idle && e.wish == "" && e.line.over(now)
}

// mismatch says whether the name is in use for something that a kind is not.
func (e *entry) mismatch(kind lock.Kind) bool {
	if kind == lock.Semaphore {
		return e.occupied || e.owner != "" || e.shared != nil
	}
	return e.occupied || e.permits != nil
}

// holder is one who holds the name, other than by permits, and for how long it is held. There is no telling who of
// several readers it is, so there is none then.
func (e *entry) holder(now time.Time) (o lock.Owner, left time.Duration, held bool) {
	switch {
	case e.owner != "":
		return e.owner, e.expires.Sub(now), true
	case e.shared != nil:
		return e.shared.single(), e.shared.expires.Sub(now), true
	}
	return "", 0, false
}

// hold gives the name to an owner.
func (e *entry) hold(o lock.Owner, count uint32, until time.Time) {
	e.owner, e.count, e.expires = o, count, until
}

// free takes the name from whoever holds it exclusively.
func (e *entry) free() {
	e.owner, e.count, e.expires = "", 0, time.Time{}
}

// clear drops all that is under the name, but not who waits.
func (e *entry) clear() {
	e.free()
	e.occupied, e.shared, e.permits = false, nil, nil
}

// later moves an end to a later time, never to an earlier one, and returns the remaining time.
func later(end *time.Time, now time.Time, ttl time.Duration) time.Duration {
	if until := now.Add(ttl); until.After(*end) {
		*end = until
	}
	return end.Sub(now)
}
