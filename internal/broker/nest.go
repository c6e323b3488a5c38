package broker

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// What a named holder has already a request of its meets in no queue, as an operation of that lease. What it asks for
// once more nests: how often is counted here, and the store knows one hold, which lasts as long as the longest lease
// that was asked for. If it writes it may read as well: its read hold stands beside its write hold, has an owner and a
// fence of its own, and outlives it (a downgrade). The other way round there is no way: a holder that reads and waits
// to write would wait for itself, so it is refused at once.

// ownLocked is the lease that a request meets, of the same kind if there is one; nil if there is none.
func (w *waiter) ownLocked() *Lease {
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

// useOwnLocked has a request go on with a lease that it meets.
func (b *Broker) useOwnLocked(l *Lease, w *waiter) {
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

// joinWaitersLocked settles what the holder of a new lease waits for: a named holder must not wait for itself.
func (b *Broker) joinWaitersLocked(l *Lease) {
	var ws []*waiter
	for _, w := range l.sess.Waits() {
		if w := w.(*waiter); w.holder == l.holder {
			ws = append(ws, w)
		}
	}
	slices.SortFunc(ws, func(v, w *waiter) int { return cmp.Compare(v.id, w.id) })
	for _, w := range ws {
		switch {
		case w.all != nil:
			if slices.Contains(w.shards, b.shardNumber(l.name)) {
				b.goTaking(func() { // it locks the mutexes of other names
					w.lock()
					defer w.unlock()
					if !w.Asking() {
						b.joinLocked(w, false)
					}
				})
			}
		case w.shard != l.q.shard || w.Claim.Name != l.name || w.Asking() || w.apart:
		default:
			b.joinLocked(w, false)
		}
	}
}

// joinLocked settles a request whose holder has something by now that it meets, and says whether it did. What the store
// granted is settled only if the holder cannot have both; then it is to be given back.
func (b *Broker) joinLocked(w *waiter, granted bool) bool {
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
	own := w.ownLocked()
	switch {
	case own == nil || granted && own.kind != w.Claim.Kind:
		return false
	case own.kind == w.Claim.Kind:
		b.outOfQueueLocked(w)
		_ = w.sess.Wait(w.id, w, session.Want{}) // a session that has ended withdraws it
		b.useOwnLocked(own, w)
	case w.upgrades(own):
		b.refuseLocked(w, session.Failed{ID: w.id, Err: session.ErrUpgrade})
	case w.Lined():
		b.outOfQueueLocked(w)
		b.useOwnLocked(own, w)
	default:
		return false
	}
	return true
}

// readUnderWriteLocked reads a name for a holder that writes it. It runs as an operation of the write lease.
func (b *Broker) readUnderWriteLocked(l *Lease, w *waiter) {
	switch {
	case w.Answered(): // cancelled
	case w.ownLocked() == l:
		a := w.attemptLocked()
		a.claim.WriteOwner = l.owner
		b.ask(w, a, func(b *Broker, w *waiter, a attempt) {
			b.readLocked(w, a)
			l.opOverLocked()
		})
		return
	default: // it is over, or there is one to nest in
		b.ordinaryLocked(w)
	}
	l.opOverLocked()
}

// readLocked goes on with the outcome of the attempt.
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

// lackingLocked is how long the store has to keep a hold from now on for one request more, 0 if it does so anyway.
func (l *Lease) lackingLocked(w *waiter) time.Duration {
	now := time.Now()
	ttl := max(w.ttl(now), time.Millisecond)
	renewed := w.auto && l.auto && now.Before(l.until)
	lasts := renewed || !trusted(now, ttl).After(l.until)
	// The replica that the session left may be releasing it: the store is asked for what came from there.
	if lasts && !now.Before(l.sess.Settled()) {
		return 0
	}
	return ttl
}

// outlastLocked has a hold last so long from now, and then goes on with the operation.
func (b *Broker) outlastLocked(l *Lease, w *waiter, ttl time.Duration) {
	r, start := l.verification(), time.Now()
	r.TTL = ttl
	l.own().extended = true
	b.startExtending(r, false, func(end time.Time, err error) {
		l.lock()
		defer l.unlock()
		w.span.Asked(start, time.Now(), err)
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
	l.auto = l.auto || w.auto
	l.keepLocked()
	l.sess.Conclude(w.id, w, session.Granted{
		ID: w.id, Hold: l.Hold(), Validity: l.sess.Validity(l.until), Count: l.count, Auto: l.auto,
	})
}

// ordinaryLocked has a request that stood in no queue go its way: what it came instead of is undone, or the lease it
// was to nest in has ended.
func (b *Broker) ordinaryLocked(w *waiter) {
	if err := w.sess.routeLocked(w); err != nil {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: err})
	}
}

// tooOld says whether an operation of a lease waited for so long that it is not begun any more. Else many of them could
// keep a release waiting without a bound while the store is silent.
func (b *Broker) tooOld(asked time.Time) bool { return time.Since(asked) > b.cfg.AnswerTime }
