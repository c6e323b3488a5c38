package broker

import (
	"errors"
	"time"
)

// driveLocked starts the driver of a queue if somebody waits, nobody here holds the name, and it does not run yet.
//
// The first attempt, which mostly is a grant, needs no goroutine. With any other outcome drive goes on from there.
func (b *Broker) driveLocked(q *queue) {
	if q.driving || q.holder != nil || q.waiters.Len() == 0 || b.closed {
		return
	}
	q.driving = true
	if q.yield {
		b.goDriveLocked(q, nil, attempt{})
		return
	}
	w := q.headLocked()
	c, start := w.claimLocked(), time.Now()
	b.takingLocked()
	b.store.StartAcquire(c, func(g Grant, err error) {
		a := judge(c, start, g, err)
		b.mu.Lock()
		defer b.mu.Unlock()
		defer b.takenLocked()
		if a.err != nil || w.gone {
			b.goDriveLocked(q, w, a)
			return
		}
		w.trying = false
		b.grantLocked(q, w, a)
		q.driving = false
		b.driveLocked(q)
		b.dropIdleLocked(q)
	})
}

func (b *Broker) goDriveLocked(q *queue, w *waiter, a attempt) {
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	b.takeLocked(func() { b.drive(q, w, a) })
}

// drive asks the store on behalf of the heads of a queue, one after the other, until nobody waits or a session of
// this replica holds the name. It begins with an attempt already made for w, if there is one. Only if a head has to
// wait is the name listened to, and then it is tried once more, because the release may have come before the
// listening.
func (b *Broker) drive(q *queue, w *waiter, a attempt) {
	ear := ear{b: b, q: q}
	defer ear.close()
	if w == nil {
		w, a = b.tryNext(q)
	}
	for fails := 0; w != nil; w, a = b.tryNext(q) {
		a = b.insist(a)
		pause := b.conclude(q, w, a)
		switch {
		case pause == 0:
			fails = 0
		case errors.Is(a.err, ErrHeld):
			fails = 0
			ear.sleep(pause)
		default:
			fails++
			ear.rest(backoff(fails))
		}
	}
}

// tryNext makes an attempt for the head of a queue, or ends the driver.
func (b *Broker) tryNext(q *queue) (*waiter, attempt) {
	b.mu.Lock()
	if q.yield {
		q.yield = false
		b.mu.Unlock()
		b.pause(yieldPause)
		b.mu.Lock()
	}
	w := q.headLocked()
	if w == nil || q.holder != nil || b.closed {
		q.driving = false
		b.dropIdleLocked(q)
		b.mu.Unlock()
		return nil, attempt{}
	}
	c := w.claimLocked()
	b.mu.Unlock()
	return w, b.attempt(c)
}

// claimLocked marks a waiter as being tried and is what to ask for now.
func (w *waiter) claimLocked() Claim {
	w.trying = true
	c := w.claim
	c.TTL = max(w.ttlLocked(time.Now()), time.Millisecond)
	return c
}

// attempt is a claim that was made, and its outcome.
type attempt struct {
	claim Claim
	start time.Time
	fence Fence
	err   error
	// unsure says that an earlier one with the same claim was not answered, and may be executed yet.
	unsure bool
}

// attempt makes a claim.
func (b *Broker) attempt(c Claim) attempt {
	start := time.Now()
	g, err := b.store.Acquire(b.ctx, c)
	return judge(c, start, g, err)
}

// judge reads an outcome. A grant whose time is already over when the answer comes is an unknown one.
func judge(c Claim, start time.Time, g Grant, err error) attempt {
	a := attempt{claim: c, start: start, fence: g.Fence, err: err}
	if err == nil && !time.Now().Before(a.until()) {
		a.err = ErrOutcomeUnknown
	}
	return a
}

// until is the end of the validity of what was granted.
func (a attempt) until() time.Time { return a.start.Add(a.claim.TTL - margin(a.claim.TTL)) }

// insist makes a claim once more if the store did not answer.
func (b *Broker) insist(a attempt) attempt {
	if !errors.Is(a.err, ErrOutcomeUnknown) {
		return a
	}
	a = b.attempt(a.claim)
	a.unsure = true
	if a.err != nil && !errors.Is(a.err, ErrOutcomeUnknown) {
		a.err = errors.Join(a.err, ErrOutcomeUnknown)
	}
	return a
}

// conclude gives the outcome of an attempt to the waiter it was made for. It returns how long the driver shall wait
// before the next one, 0 if it need not.
func (b *Broker) conclude(q *queue, w *waiter, a attempt) time.Duration {
	err := a.err
	b.mu.Lock()
	w.trying = false
	w.unsure = w.unsure || a.unsure || errors.Is(err, ErrOutcomeUnknown)
	if w.gone {
		b.mu.Unlock()
		b.forfeit(q, w, a)
		return 0
	}
	defer b.mu.Unlock()
	var held *HeldError
	switch {
	case err == nil:
		b.grantLocked(q, w, a)
		return 0
	case errors.As(err, &held) && !w.try:
		b.parkLocked(q, w)
		return held.pause()
	case w.queued && retriable(err):
		return retryPause
	case held != nil:
		b.removeLocked(q, w)
		b.answerLocked(w, NotGranted{ID: w.id, Cause: ErrHeld, RetryAfter: max(held.RetryAfter, 0), HeldBy: held.HeldBy})
	default:
		b.removeLocked(q, w)
		b.answerLocked(w, Failed{ID: w.id, Err: err})
	}
	return 0
}

// forfeit gives back what an attempt took for a waiter that was answered while it was under way: to the next waiter
// if there is one. A unary caller that knows its lease id may be asking again this moment; its lease is left alone.
func (b *Broker) forfeit(q *queue, w *waiter, a attempt) {
	switch {
	case w.ownID:
	case a.err == nil:
		b.passFor(q, w, a.fence)
		if w.unsure {
			b.settle(w.claim, w.sess)
		}
	case w.unsure:
		b.settle(w.claim, w.sess)
	}
}

func retriable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrStoreFull)
}

// pause is how long to wait for a hold to end by itself.
func (e *HeldError) pause() time.Duration {
	if e.RetryAfter == NoTTL {
		return pollInterval
	}
	return max(min(e.RetryAfter+time.Millisecond, pollInterval), time.Millisecond)
}
