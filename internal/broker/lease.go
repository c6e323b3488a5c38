package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// Lease is a lock that a session of this replica holds. The Keeper keeps it alive; when it ends without a release
// the session hears Lost and the queue of its name moves on.
//
// There may be a million of them, so what few need is in extras.
type Lease struct {
	b       *Broker
	sess    *Session
	q       *queue
	name    string
	holder  string
	owner   lock.Owner
	request uint64 // that took it first
	fence   lock.Fence
	since   stamp
	taken   uint32 // permits of a semaphore at first; 0 if that is not known
	kind    lock.Kind

	// Guarded by the mutex of its name's shard:
	auto    bool
	over    bool // lost, released, or about to be released
	doubted bool // it may be there no more, see doubt.go
	count   uint32
	permits uint32    // of a semaphore, that are left
	until   time.Time // validity
	seen    stamp     // start of the last store call that found it there
	*extras

	entry session.Entry // its session's
	note  lock.Note     // the Keeper's
}

// extras are what few leases have. Each lease can be read as if it had them; own gives it some of its own to write to.
type extras struct {
	annotation string
	before     time.Duration // for how long it was held elsewhere
	actor      string        // that its request named
	most       most          // by its max_hold
	reduced    time.Time     // when permits were released
	shortening bool          // a call that shortens it is under way: renewals do not count
	changed    time.Time     // when the lease was shortened or made fixed: renewals that began before count no more
	extended   bool          // by calls besides renewals, or granted late: the store may keep it longer than was told
	ops        []func()      // operations that touch the hold, one after the other; the first one runs
}

// nothing is what a lease has without extras. It is never written to.
var nothing = new(extras)

// own returns the extras of the lease, to be written to.
func (l *Lease) own() *extras {
	if l.extras == nothing {
		l.extras = new(extras)
	}
	return l.extras
}

// stamp is a time that is kept in 8 bytes: the ns since Broker.began. 0 is the zero time.
type stamp int64

func (b *Broker) stamp(t time.Time) stamp { return stamp(t.Sub(b.began)) }

func (b *Broker) time(s stamp) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return b.began.Add(time.Duration(s))
}

// trusted is the end of the validity of a lease to which a store call that began at start gave a TTL.
//
//	validity = start of the call + TTL - (TTL/100 + 2 ms)
func trusted(start time.Time, ttl time.Duration) time.Time { return start.Add(ttl - lock.Drift(ttl)) }

// doLocked runs op alone among the operations of this lease, in the order of the calls: if two changes of a lease were
// under way at once, the older one could reach the store last. op begins and ends with the mutex held, and calls
// opOverLocked at its end, which may be in the answer of the store.
func (l *Lease) doLocked(op func()) {
	l.sess.EnterOp()
	l.own().ops = append(l.ops, op)
	if len(l.ops) == 1 {
		op()
	}
}

// requestLocked is doLocked for a request of the client. It fails if the session has too many operations under way.
func (l *Lease) requestLocked(op func()) error {
	err := l.sess.Operable()
	if err == nil {
		l.doLocked(op)
	}
	return err
}

func (l *Lease) opOverLocked() {
	l.sess.LeaveOp()
	if l.ops = l.ops[1:]; len(l.ops) == 0 {
		l.ops = nil
		return
	}
	l.ops[0]()
}

func (l *Lease) loseLocked(reason lock.LostReason) {
	reason = l.endedLocked(reason)
	l.b.metrics.lost.WithLabelValues(reason.String()).Inc()
	lost := l.b.lostBy(l.Hold(), reason)
	l.sess.TellLost(lost, l.owner, l.auto)
	l.happened(history.Lost, time.Now(), lostFor(lost))
	l.overLocked(false)
	l.b.releaseLostLocked(l)
	l.b.dropHoldLocked(l)
}

// releaseLostLocked releases a lost lease that the store may keep for much longer than anybody was told: an extended
// one, one granted late, one with a max_hold, or that of a writer, who may read as well. It does so a margin after the
// end of the validity, when a lease ordinarily ends. It does nothing if the session has gone on elsewhere, or has ended
// and leaves its leases to run out: the client may still be at work.
func (b *Broker) releaseLostLocked(l *Lease) {
	if !l.extended && l.kind != lock.Write || l.sess.LeavesLeases() {
		return
	}
	r, at := l.returnAll(), l.until.Add(lock.Drift(l.until.Sub(b.time(l.since))))
	l.sess.IfStillHere(func() {
		time.AfterFunc(time.Until(at), func() { // Close does not wait for that: it may be hours
			b.beginTaking()
			defer b.endTaking()
			if !l.sess.LeavesLeases() && b.ctx.Err() == nil {
				b.undo(r)
			}
		})
	})
}

// overLocked takes the lease from its keeper and its session: it is renewed no more and cannot be lost any more.
// released: a release follows, as an operation of its session.
func (l *Lease) overLocked(released bool) {
	l.b.keeper.Drop(l)
	l.over = true
	l.b.metrics.held[l.kind].Dec()
	l.b.metrics.holdTime.Observe(time.Since(l.b.time(l.since)).Seconds())
	l.q.shard.leases.Delete(l)
	l.sess.Dismiss(l, released)
}

// dropHoldLocked takes a lease that is over from its queue, and has the queue ask the store again.
func (b *Broker) dropHoldLocked(l *Lease) {
	l.q.unholdLocked(l)
	l.q.Wake()
	b.driveLocked(l.q)
	l.q.dropIdleLocked()
}
