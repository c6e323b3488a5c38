package memstore

import (
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// entry is all that is known of a name. Store.mu guards it.
type entry struct {
	name string
	// fence is the last one given out, 0 before the first.
	fence broker.Fence
	// fenceUntil is when the fence of a free name may be forgotten.
	fenceUntil time.Time

	// occupied: the name is in use for something that is no lock. Only tests do that.
	occupied bool
	// owner is empty if nobody holds the name. The fields below belong to it.
	owner   broker.Owner
	count   uint32
	expires time.Time

	// prev and next link all entries to the ring that sweep goes round.
	prev, next *entry
}

// held says whether somebody holds the name at a time.
func (e *entry) held(now time.Time) bool {
	return e != nil && e.owner != "" && now.Before(e.expires)
}

// heldBy says whether this owner holds the name at a time.
func (e *entry) heldBy(o broker.Owner, now time.Time) bool {
	return e.held(now) && e.owner == o
}

// hold gives the name to an owner.
func (e *entry) hold(o broker.Owner, count uint32, until time.Time) {
	e.owner, e.count, e.expires = o, count, until
}

// free takes the name from whoever holds it.
func (e *entry) free() {
	e.owner, e.count, e.expires = "", 0, time.Time{}
}

// prolong moves the end of the hold to a later time, never to an earlier one, and returns the remaining time.
func (e *entry) prolong(now time.Time, ttl time.Duration) time.Duration {
	if until := now.Add(ttl); until.After(e.expires) {
		e.expires = until
	}
	return e.expires.Sub(now)
}
