package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// startLocked makes an attempt for a waiter, without a goroutine if it asks for one name and the store answers.
func (b *Broker) startLocked(w *waiter) {
	q, a := w.q, w.attemptLocked()
	if a.all != nil {
		b.goTakingLocked(func() { b.finish(q, w, b.insist(b.attempt(a))) })
		return
	}
	a.start = time.Now()
	b.beginTakingLocked()
	b.store.StartAcquire(a.claim, func(g lock.Grant, err error) {
		a.grants, a.err = []lock.Grant{g}, err
		a = judge(a)
		b.mu.Lock()
		defer b.mu.Unlock()
		defer b.endTakingLocked()
		if errors.Is(a.err, lock.ErrOutcomeUnknown) {
			b.goTakingLocked(func() { b.finish(q, w, b.insist(a)) })
			return
		}
		b.finishLocked(q, w, a)
	})
}

func (b *Broker) finish(q *queue, w *waiter, a attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finishLocked(q, w, a)
}

// finishLocked goes on with an attempt that startLocked began, and with the queue it began in.
func (b *Broker) finishLocked(q *queue, w *waiter, a attempt) {
	b.concludeLocked(w, a)
	q.signal()
	b.driveLocked(q)
	b.dropIdleLocked(q)
}

// grantedLocked answers a waiter that was granted what it asked for. Where one shared hold fits in, more may: the next
// two are tried at once, and for each that is granted two more, until one is refused.
func (b *Broker) grantedLocked(w *waiter, a attempt) {
	q := w.q
	b.grantLocked(w, a)
	if w.claim.Kind.Shared() && a.refusals == q.refusals && !b.closed {
		b.startNextLocked(q, 2)
	}
}

// startNextLocked tries the next waiters of a queue, as long as they ask for shared holds: of permits none that wants
// fewer than one before it, because it could be granted what that one is refused.
func (b *Broker) startNextLocked(q *queue, n int) {
	most, w := uint32(0), q.waiters.front
	for range sideBySide {
		if w == nil || n == 0 {
			return
		}
		if !w.claim.Kind.Shared() || w.claim.Permits < most || q.blockedLocked(w) {
			return
		}
		next := w.behind
		if !w.trying {
			b.startLocked(w)
			n--
		}
		most, w = w.claim.Permits, next
	}
}

// attemptLocked marks a waiter as being tried and is the attempt to be made now.
func (w *waiter) attemptLocked() attempt {
	c := w.claimLocked()
	return attempt{claim: c, all: w.claimsLocked(c.TTL), wakeups: w.q.wakeups, refusals: w.q.refusals}
}

// claimLocked marks a waiter as being tried and is what to ask for now.
func (w *waiter) claimLocked() lock.Claim {
	w.trying = true
	c := w.claim
	c.TTL = max(w.ttlLocked(time.Now()), time.Millisecond)
	if c.Kind.Placed() && w.all == nil && !w.try {
		c.Place = placeTime
		w.placed = true
	}
	return c
}

// claimsLocked are all claims of a request for several names, nil for one.
func (w *waiter) claimsLocked(ttl time.Duration) []lock.Claim {
	if w.all == nil {
		return nil
	}
	all := append([]lock.Claim(nil), w.all...)
	for i := range all {
		all[i].TTL = ttl
	}
	return all
}

// attempt is a claim that was made, and its outcome.
type attempt struct {
	claim  lock.Claim
	all    []lock.Claim // if several names were claimed at once
	start  time.Time
	grants []lock.Grant // one for each name
	err    error
	// earlierUnknown says that an earlier one with the same claim was not answered, and may be executed yet.
	earlierUnknown bool
	// wakeups and refusals are those of the queue when the attempt was begun.
	wakeups, refusals int32
}

// claims are all that were made.
func (a attempt) claims() []lock.Claim {
	if a.all != nil {
		return a.all
	}
	return []lock.Claim{a.claim}
}

// claimed are all claims of a request.
func (w *waiter) claimed() []lock.Claim {
	if w.all != nil {
		return w.all
	}
	return []lock.Claim{w.claim}
}

func (a attempt) fence() lock.Fence { return a.grants[0].Fence }

// attempt makes a claim, or all of several.
func (b *Broker) attempt(a attempt) attempt {
	a.start = time.Now()
	if a.all != nil {
		a.grants, a.err = b.store.AcquireAll(b.ctx, a.all)
		return judge(a)
	}
	var g lock.Grant
	g, a.err = b.store.Acquire(b.ctx, a.claim)
	a.grants = []lock.Grant{g}
	return judge(a)
}

// judge reads an outcome. A grant whose time is already over when the answer comes is an unknown one.
func judge(a attempt) attempt {
	if a.err == nil && !time.Now().Before(a.until()) {
		a.err = lock.ErrOutcomeUnknown
	}
	return a
}

// until is the end of the validity of what was granted.
func (a attempt) until() time.Time { return a.start.Add(a.claim.TTL - margin(a.claim.TTL)) }

// insist makes a claim once more if the store did not answer.
func (b *Broker) insist(a attempt) attempt {
	if !errors.Is(a.err, lock.ErrOutcomeUnknown) {
		return a
	}
	a = b.attempt(a)
	a.earlierUnknown = true
	if a.err != nil && !errors.Is(a.err, lock.ErrOutcomeUnknown) {
		a.err = errors.Join(a.err, lock.ErrOutcomeUnknown)
	}
	return a
}
