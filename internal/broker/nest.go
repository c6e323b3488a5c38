package broker

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A request of a named holder for a name that it has already is in no queue: it is an operation of the lease, which it
// meets. If it asks for the same kind it nests: how often is counted here, and the store knows one hold, which lasts as
// long as the longest lease that was asked for. A holder that writes may read as well: its read hold has an owner and a
// fence of its own, and outlives the write hold (a downgrade). A holder that reads cannot write: it would wait for
// itself, so it is refused at once.

// leaseOfHolderLocked is the lease that a request meets, of the same kind if there is one; nil if there is none.
func (w *waiter) leaseOfHolderLocked() *Lease {
	if w.sess == nil || w.all != nil || !named(w.holder) {
		return nil
	}
	name, k := w.Claim.Name, w.Claim.Kind
	l := w.sess.leaseLocked(name, k, w.holder)
	switch {
	case l != nil:
	case k == lock.Read:
		l = w.sess.leaseLocked(name, lock.Write, w.holder)
	case k == lock.Write:
		l = w.sess.leaseLocked(name, lock.Read, w.holder)
	}
	return l
}

// upgrades says whether a request asks to write what its holder reads with this lease.
func (w *waiter) upgrades(own *Lease) bool {
	return w.Claim.Kind == lock.Write && own.kind == lock.Read
}

// useLeaseLocked carries out a request on the lease that it meets.
func (b *Broker) useLeaseLocked(l *Lease, w *waiter) {
	w.apart, w.q = true, l.q
	b.boundLocked(w)
	asked := time.Now()
	l.doLocked(func() {
		if l.kind == w.Claim.Kind {
			b.nestLocked(l, w, asked)
		} else {
			b.readUnderWriteLocked(l, w)
		}
	})
}

// holding is a name that a named holder has, or asks for.
type holding struct {
	sess         *Session
	holder, name string
}

// listByHolderLocked lists a request of a named holder that stands in a queue under each of its names, in the order of
// the ids. When the holder is granted one of them, settleWaitersOfLocked looks there.
func (w *waiter) listByHolderLocked() {
	w.eachByHolderLocked(func(ws []*waiter, at int) []*waiter { return slices.Insert(ws, at, w) })
}

// unlistByHolderLocked takes the request out of these lists.
func (w *waiter) unlistByHolderLocked() {
	w.eachByHolderLocked(func(ws []*waiter, at int) []*waiter {
		if at < len(ws) && ws[at] == w {
			return slices.Delete(ws, at, at+1)
		}
		return ws
	})
}

// eachByHolderLocked changes the list of each name of this request, which is, or would be, at an index of it.
func (w *waiter) eachByHolderLocked(change func(ws []*waiter, at int) []*waiter) {
	if w.sess == nil || !named(w.holder) {
		return
	}
	for _, c := range w.claimed() {
		all, of := w.b.shardOf(c.Name).byHolder, holding{w.sess, w.holder, c.Name}
		at, _ := slices.BinarySearchFunc(all[of], w, (*waiter).compare)
		if ws := change(all[of], at); len(ws) > 0 {
			all[of] = ws
		} else {
			delete(all, of)
		}
	}
}

// compare orders the requests of a session.
func (w *waiter) compare(o *waiter) int { return cmp.Compare(w.id, o.id) }

// settleWaitersOfLocked settles the requests of a holder that has new leases: a named holder must not wait for itself.
func (b *Broker) settleWaitersOfLocked(ls []*Lease) {
	var ws []*waiter
	for _, l := range ls {
		ws = append(ws, l.q.shard.byHolder[holding{l.sess, l.holder, l.name}]...)
	}
	slices.SortFunc(ws, (*waiter).compare)
	for _, w := range slices.Compact(ws) { // of several names
		switch {
		case w.all != nil:
			b.goTaking(func() { // it locks the mutexes of other names
				w.lock()
				defer w.unlock()
				if !w.Asking() {
					b.settleNestedLocked(w, false)
				}
			})
		case !w.Asking() && !w.apart:
			b.settleNestedLocked(w, false)
		}
	}
}

// settleNestedLocked settles a request whose holder has a lease by now that it meets, and says whether it did. A
// request that the store has granted is settled only if the holder cannot have both; then the grant is to be undone.
func (b *Broker) settleNestedLocked(w *waiter, granted bool) bool {
	if w.Answered() {
		return false
	}
	if w.all != nil {
		err := w.overlapLocked()
		if err != nil {
			b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
		}
		return err != nil
	}
	own := w.leaseOfHolderLocked()
	switch {
	case own == nil || granted && own.kind != w.Claim.Kind:
		return false
	case own.kind == w.Claim.Kind:
		b.outOfQueueLocked(w)
		_ = w.sess.AddWaiter(w.id, w, session.Want{}) // a session that has ended withdraws it
		b.useLeaseLocked(own, w)
	case w.upgrades(own):
		b.refuseLocked(w, session.Failed{ID: w.id, Err: session.ErrUpgrade})
	case w.Lined():
		b.outOfQueueLocked(w)
		b.useLeaseLocked(own, w)
	default:
		return false
	}
	return true
}

// readUnderWriteLocked asks the store for a read hold of a holder that writes. It is an operation of the write lease.
func (b *Broker) readUnderWriteLocked(l *Lease, w *waiter) {
	switch {
	case w.Answered(): // cancelled
	case w.leaseOfHolderLocked() == l:
		a := w.attemptLocked(time.Now())
		a.claim.WriteOwner = l.owner
		b.ask(w, a, func(b *Broker, w *waiter, a attempt) {
			b.readLocked(w, a)
			l.opOverLocked()
		})
		return
	default: // the write lease is over, or there is a read lease to nest in
		b.ordinaryLocked(w)
	}
	l.opOverLocked()
}

// readLocked deals with the outcome of that attempt.
func (b *Broker) readLocked(w *waiter, a attempt) {
	_, settled := b.endAttemptLocked(w, a)
	switch {
	case settled:
	case a.err == nil:
		b.grantAndAskMoreLocked(w, a)
	case errors.Is(a.err, lock.ErrHeld): // the write hold is lost, its holder does not know yet
		if err := b.enterLocked(w); err != nil {
			b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
		}
	default:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: a.err})
	}
}

// nestLocked holds a lock once more for a holder that has it. It runs as an operation of the lease.
func (b *Broker) nestLocked(l *Lease, w *waiter, asked time.Time) {
	switch ttl := l.lackingLocked(w); {
	case w.Answered(): // at its bound, or cancelled
	case l.over:
		b.ordinaryLocked(w)
	case b.tooOld(asked):
		b.refuseLocked(w, session.Failed{ID: w.id, Err: lock.ErrUnavailable})
	case l.count >= lock.MaxHolds:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: b.metrics.denied("holds", lock.MaxHolds)})
	case ttl > 0:
		b.outlastLocked(l, w, ttl)
		return
	default:
		b.nestedLocked(l, w)
	}
	l.opOverLocked()
}

// lackingLocked is for how long the store is to be asked to keep a hold for one more request; 0 if it does so anyway.
func (l *Lease) lackingLocked(w *waiter) time.Duration {
	now := time.Now()
	ttl := l.most.within(max(w.ttl(now), time.Millisecond), now)
	renewed := w.auto && l.auto && now.Before(l.until)
	lasts := renewed || !l.most.last(trusted(now, ttl)).After(l.until)
	// Until Settled the replica that the session left may be releasing the hold, so the store is asked.
	if lasts && !now.Before(l.sess.Settled()) {
		return 0
	}
	return ttl
}

// outlastLocked has a hold last for ttl from now, and then nests the request.
func (b *Broker) outlastLocked(l *Lease, w *waiter, ttl time.Duration) {
	r, start := l.verification(), time.Now()
	r.TTL = ttl
	l.own().extended = true
	b.startExtending(r, false, func(end time.Time, err error) {
		l.lock()
		defer l.unlock()
		w.span.asked(start, time.Now(), err)
		if gone, is := errors.AsType[*lock.GoneError](err); is && !l.over {
			l.loseLocked(gone.Reason)
		}
		switch {
		case w.Answered(): // its client does not count on it
		case l.over:
			b.refuseLocked(w, session.Failed{ID: w.id, Err: session.ErrLost})
		case err != nil:
			b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
		default:
			l.seen = max(l.seen, b.stamp(start))
			l.lastLocked(end)
			b.nestedLocked(l, w)
		}
		l.opOverLocked()
	})
}

// nestedLocked grants a request one more hold of its holder.
func (b *Broker) nestedLocked(l *Lease, w *waiter) {
	w.spanGranted(l.fence)
	b.removeLocked(w)
	b.metrics.granted[l.kind].Inc()
	l.count++
	if w.auto && !l.auto {
		l.limitLocked(time.Now(), w.maxHold)
		l.auto = true
	}
	l.keepLocked()
	l.sess.Conclude(w.id, w, session.Granted{
		ID: w.id, Hold: l.Hold(), Validity: l.sess.Validity(l.Terms()), Count: l.count, Auto: l.auto, Most: l.most.until,
	})
}

// ordinaryLocked routes a request that stood in no queue: what it replaces is undone, or the lease that it met has
// ended.
func (b *Broker) ordinaryLocked(w *waiter) {
	if err := w.sess.routeLocked(w); err != nil {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	}
}

// tooOld says whether an operation of a lease waited for so long that it is not begun any more. Otherwise, while the
// store is silent, many of them could keep a release waiting without a bound.
func (b *Broker) tooOld(asked time.Time) bool { return time.Since(asked) > b.cfg.AnswerTime }
