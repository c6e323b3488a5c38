package memstore

import (
	"maps"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// entry is all that is known of a name. Store.mu guards it.
type entry struct {
	name string
	// fence is the last one given out, 0 before the first.
	fence lock.Fence
	// used is when the last operation about the name was.
	used time.Time

	// What is under the name: at most one of the following. It may be over until refresh finds that.

	// occupied: the name is in use for something that is no lock. Only tests do that.
	occupied bool
	// hold is that of a lock that somebody has.
	hold
	// permits is a semaphore.
	permits *semaphore
	// record is the record of a session.
	record *record

	// Who waits, whatever is under the name.

	// queue is where fair waiters have their places.
	queue queue
	// wish is a writer that keeps new readers away until its place ends.
	wish      lock.Owner
	wishUntil time.Time
}

// hold is what there is of a lock that is held. It is the zero value if nobody holds it.
type hold struct {
	// shared: it is a read-write lock, held by readers, or by a writer, or by a writer and readers beside it.
	shared bool
	// owner has the lock alone, with the fence own: exclusively, fair or not, or as the writer. It is empty if there is
	// none.
	owner lock.Owner
	own   lock.Fence
	// readers are those who read. Their holds may end before the lock.
	readers map[lock.Owner]*reading
	// expires is when the whole lock ends; if there is an owner, when the owner's hold ends.
	expires time.Time
}

// refresh drops what has ended by itself. It comes before every use of an entry.
func (e *entry) refresh(now time.Time) {
	if e.held() && !now.Before(e.expires) {
		e.hold = hold{}
	}
	maps.DeleteFunc(e.readers, func(_ lock.Owner, r *reading) bool { return !now.Before(r.expires) })
	if e.permits != nil && !now.Before(e.permits.expires) {
		e.permits = nil
	}
	if e.record != nil && !now.Before(e.record.until) {
		e.record = nil
	}
	if e.wish != "" && !now.Before(e.wishUntil) {
		e.wish = ""
	}
}

// empty says whether there is nothing in an entry besides its fence.
func (e *entry) empty(now time.Time) bool {
	return !e.occupied && !e.held() && e.permits == nil && e.record == nil && e.wish == "" && e.queue.over(now)
}

// clear drops all that is under the name, but not who waits.
func (e *entry) clear() { e.occupied, e.hold, e.permits = false, hold{}, nil }

// mismatch says whether the name is in use for something else than a kind.
func (e *entry) mismatch(kind lock.Kind) bool {
	if kind == lock.Semaphore {
		return e.occupied || e.held()
	}
	return e.occupied || e.permits != nil
}

// held says whether there is a lock that is held.
func (h *hold) held() bool { return h.owner != "" || h.shared }

// alone says whether an owner has the lock alone, as a kind.
func (h *hold) alone(kind lock.Kind, o lock.Owner) bool {
	return o != "" && h.owner == o && h.shared == (kind == lock.Write)
}

// holder is who holds the lock, and for how long it is held. o is empty if there are several holders.
func (h *hold) holder(now time.Time) (o lock.Owner, left time.Duration, held bool) {
	if !h.held() {
		return "", 0, false
	}
	if len(h.readers) == 0 {
		o = h.owner
	} else if len(h.readers) == 1 && h.owner == "" {
		o = slices.Collect(maps.Keys(h.readers))[0]
	}
	return o, h.expires.Sub(now), true
}

// later moves an end to a later time, never to an earlier one, and returns the remaining time.
func later(end *time.Time, now time.Time, ttl time.Duration) time.Duration {
	*end = laterOf(*end, now.Add(ttl))
	return end.Sub(now)
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
