package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Lease is a lock that a session of this replica holds. The Keeper keeps it alive; when it ends without a release
// the session hears Lost and the queue of its name moves on.
//
// There may be a million, so what few of them need is in a struct beside.
type Lease struct {
	b         *Broker
	sess      *Session
	q         *queue
	name      string
	holder    string
	owner     lock.Owner
	request   uint64 // that took it first
	fence     lock.Fence
	since     stamp
	taken     uint32 // permits of a semaphore at first
	kind      lock.Kind
	lateGrant bool // an attempt whose answer never came may still be under way: it could take the lock once more

	// Guarded by Broker.mu:
	auto    bool
	over    bool  // lost, released, or about to be released
	suspect bool  // to be verified before the session is told Safe
	slot    uint8 // in Session.earliest; 0 for none
	count   uint32
	permits uint32    // of a semaphore, that are left
	at      uint32    // in Session.list
	until   time.Time // validity
	seen    stamp     // when the last store call began that found it there
	mark    lock.Mark // the Keeper's, guarded by it
	*rare
}

// rare is what few leases have. It is read as if each had one; before it is written to, own gives the lease one of its own.
type rare struct {
	annotation string
	// lateReturn: one of several read holds was given back by a call that may come late, and then takes a newer one.
	lateReturn bool
	levels     []level   // of a reader that has several holds; until and auto are what they are together
	reduced    time.Time // when permits were given back
	shortening bool      // a call that shortens it is under way: renewals do not count
	changed    time.Time // when the lease was shortened or made fixed: renewals that began before count no more
	mayLast    time.Time // in the store, if a call whose outcome is not known yet prolonged it; else zero
	ops        []func()  // operations that touch the hold, one after the other; the first one runs
}

// nothing is what a lease has that has nothing rare. It is never written to.
var nothing = new(rare)

// own is what the lease has that is rare, to be written to.
func (l *Lease) own() *rare {
	if l.rare == nothing {
		l.rare = new(rare)
	}
	return l.rare
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

type holdKey struct {
	name   string
	kind   lock.Kind
	holder string
}

func (l *Lease) key() holdKey { return holdKey{l.name, l.kind, l.holder} }

func (l *Lease) hold() Hold {
	return Hold{Name: l.name, Kind: l.kind, Holder: l.holder, Fence: l.fence, AcquiredBy: l.request}
}

// doLocked runs op alone among the operations of this lease, in the order of the calls. The counts in the store are
// absolute, so two operations under way at once could leave the older one's.
func (l *Lease) doLocked(op func()) {
	l.sess.ops++
	l.own().ops = append(l.ops, op)
	if len(l.ops) == 1 {
		l.b.wg.Go(l.runOps)
	}
}

// requestLocked is doLocked for what a client asks for, which could be without end.
func (l *Lease) requestLocked(op func()) error {
	err := l.sess.operableLocked()
	if err == nil {
		l.doLocked(op)
	}
	return err
}

// operableLocked says whether the session may have one more operation under way.
func (s *Session) operableLocked() error {
	limits := s.b.cfg.Limits
	if most := limits.LocksPerSession + limits.WaitersPerSession; s.ops >= most {
		return s.b.metrics.denied("operations", most)
	}
	return nil
}

// enterOpLocked and leaveOpLocked surround an operation that needs no goroutine of its own, of a lease without others.
func (l *Lease) enterOpLocked() {
	l.sess.ops++
	l.own().ops = append(l.ops, nil)
}

func (l *Lease) leaveOpLocked() {
	l.ops = l.ops[1:]
	if len(l.ops) > 0 {
		l.b.wg.Go(l.runOps)
	} else {
		l.ops = nil
	}
	l.sess.ops--
	l.sess.finishLocked()
}

func (l *Lease) runOps() {
	b := l.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(l.ops) > 0 {
		op := l.ops[0]
		b.mu.Unlock()
		op()
		b.mu.Lock()
		l.ops = l.ops[1:]
		l.sess.ops--
		l.sess.finishLocked()
	}
	l.ops = nil
}

func (l *Lease) loseLocked(reason lock.LostReason) {
	l.b.metrics.lost.WithLabelValues(reason.String()).Inc()
	l.b.noteLossLocked(l, reason)
	l.sess.emitLocked(Lost{Hold: l.hold(), Reason: reason})
	if l.over { // its session ended because it does not read, and took care of it
		return
	}
	l.overLocked()
	l.b.undoLostLocked(l)
	l.b.freeLocked(l)
}

// prolongingLocked takes note of a store call that may make the lease last so long from now. To be told its outcome.
func (l *Lease) prolongingLocked(ttl time.Duration) (done func(error)) {
	before, may := l.mayLast, time.Now().Add(ttl)
	if may.After(before) {
		l.own().mayLast = may
	}
	return func(err error) {
		switch unknown := errors.Is(err, lock.ErrOutcomeUnknown); {
		case l.over && (err == nil || unknown):
			l.b.undoLostLocked(l)
		case !unknown:
			l.own().mayLast = before
		}
	}
}

// undoLostLocked has a lost lease given back that may last in the store for much longer than anybody was told, or be
// taken there once more. Like its end that comes later than the end of the validity by the margin. If its session has
// ended and leaves it to run out, the client may still be at work.
func (b *Broker) undoLostLocked(l *Lease) {
	left := max(time.Until(l.mayLast), 0)
	if (left > 0 || l.lateGrant) && (!l.sess.ended || l.sess.releasing) {
		b.undoClaimLocked(l.claimLocked(left), l.sess, margin(l.until.Sub(b.time(l.since))))
	}
}

// claimLocked is what may be in the store of a lease that is over.
func (l *Lease) claimLocked(left time.Duration) lock.Claim {
	c := lock.Claim{Name: l.name, Kind: l.kind, Owner: l.owner, Fence: l.fence, TTL: left, Permits: l.taken}
	if l.lateGrant { // a late attempt would get another fence
		c.Fence = 0
	}
	return c
}

// overLocked takes the lease from its keeper and its session: it is renewed no more and cannot be lost any more.
func (l *Lease) overLocked() {
	l.b.keeper.Drop(l)
	l.over = true
	l.b.metrics.held[l.kind].Dec()
	l.b.metrics.leases.Dec()
	l.b.metrics.holdTime.Observe(time.Since(l.b.time(l.since)).Seconds())
	l.sess.weight -= upkeepOf(l.permits)
	l.b.order.leases.Delete(l)
	l.sess.unlistLocked(l)
	l.sess.countLocked(l)
	l.sess.trustLocked(l)
}

// freeLocked lets the queue of a lease that is over ask the store again.
func (b *Broker) freeLocked(l *Lease) {
	l.q.unholdLocked(l)
	l.q.wakeLocked()
	b.driveLocked(l.q)
	b.dropIdleLocked(l.q)
}

// verifyGoneLocked ends a lease whose hold a store call did not find. The store says why when it is asked to verify the hold.
// Broker.mu is free meanwhile.
func (l *Lease) verifyGoneLocked() {
	r := l.verification()
	reason := lock.LostForced
	l.b.mu.Unlock()
	l.b.store.Renew(l.b.ctx, []lock.Renewal{r}, func(_ int, err error) {
		if gone, ok := errors.AsType[*lock.GoneError](err); ok {
			reason = gone.Reason
		}
	})
	l.b.mu.Lock()
	if !l.over {
		l.loseLocked(reason)
	}
}
