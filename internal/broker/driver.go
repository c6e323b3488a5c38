package broker

import (
	"errors"
	"time"
)

// driveLocked starts the driver of a queue if it has something to do and does not run yet.
//
// The first attempt, which mostly is a grant, needs no goroutine. With any other outcome drive goes on from there.
func (b *Broker) driveLocked(q *queue) {
	w := q.headLocked()
	if q.driving || w == nil || b.closed {
		return
	}
	blocked := q.blockedLocked(w)
	if blocked && q.places == nil {
		return
	}
	q.driving = true
	if blocked || q.yield || w.all != nil || w.trying {
		b.goDriveLocked(q, nil, attempt{})
		return
	}
	c, start := w.claimLocked(), time.Now()
	hurries := q.hurries
	b.takingLocked()
	b.store.StartAcquire(c, func(g Grant, err error) {
		a := judge(attempt{claim: c, start: start, grants: []Grant{g}, err: err, hurries: hurries})
		b.mu.Lock()
		defer b.mu.Unlock()
		defer b.takenLocked()
		if a.err == nil {
			b.joinHeldLocked(w, true)
		}
		if a.err != nil || w.gone {
			b.goDriveLocked(q, w, a)
			return
		}
		w.trying = false
		b.grantLocked(w, a)
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

// drive asks the store on behalf of the heads of a queue, one after the other, and keeps the places of its fair
// waiters, until nobody waits or a session of this replica holds the name. It begins with an attempt already made for
// w, if there is one. Only if a head has to wait is the name listened to, and then it is tried once more, because the
// release may have come before the listening.
func (b *Broker) drive(q *queue, w *waiter, a attempt) {
	ear := ear{b: b, q: q}
	defer ear.end()
	fails := 0
	for {
		if w != nil {
			fails = b.conclude(w, b.insist(a), fails)
		}
		t := b.nextTurn(q)
		w = t.w
		switch {
		case t.over:
			return
		case len(t.enlist) > 0:
			b.enlist(q, t.enlist)
		case w != nil:
			a = b.attempt(t.claim, t.all)
			a.hurries = t.hurries
		case fails > 0:
			ear.rest(t.pause)
		default:
			ear.sleep(t.kind, t.next, t.pause)
		}
	}
}

// turn is what a driver does next: it keeps places, or makes an attempt for w, or pauses.
type turn struct {
	over    bool
	enlist  []*waiter
	w       *waiter
	claim   Claim
	all     []Claim
	hurries int
	kind    Kind
	next    []Owner // who may be told by other programs that it is its turn
	pause   time.Duration
}

// nextTurn decides what the driver of a queue does next.
func (b *Broker) nextTurn(q *queue) turn {
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.yield {
		q.yield = false
		b.mu.Unlock()
		b.pause(yieldPause)
		b.mu.Lock()
	}
	w, now := q.headLocked(), time.Now()
	if w == nil || b.closed || q.blockedLocked(w) && q.places == nil {
		q.driving = false
		b.dropIdleLocked(q)
		return turn{over: true}
	}
	t := turn{kind: w.claim.Kind, hurries: q.hurries}
	asleep := q.blockedLocked(w) || w.trying // whoever ends that wakes the driver
	ready := !asleep && !now.Before(q.tryAt)
	if t.enlist = q.places.dueLocked(q, now, !ready); len(t.enlist) > 0 {
		return t
	}
	switch {
	case ready:
		t.w, t.claim = w, w.claimLocked()
		t.all = w.claimsLocked(t.claim.TTL)
		return t
	case asleep:
		t.pause = pollInterval
	default:
		t.pause = q.tryAt.Sub(now)
		t.next = q.nextLocked()
	}
	if q.places != nil {
		t.pause = min(t.pause, q.places.keepAt.Sub(now))
	}
	t.pause = max(t.pause, time.Millisecond)
	return t
}

// claimLocked marks a waiter as being tried and is what to ask for now.
func (w *waiter) claimLocked() Claim {
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
func (w *waiter) claimsLocked(ttl time.Duration) []Claim {
	if w.all == nil {
		return nil
	}
	all := append([]Claim(nil), w.all...)
	for i := range all {
		all[i].TTL = ttl
	}
	return all
}

// attempt is a claim that was made, and its outcome.
type attempt struct {
	claim  Claim
	all    []Claim // if several names were claimed at once
	start  time.Time
	grants []Grant // one for each name
	err    error
	// unsure says that an earlier one with the same claim was not answered, and may be executed yet.
	unsure bool
	// hurries is that of the queue when the attempt was begun.
	hurries int
}

// claims are all that were made.
func (a attempt) claims() []Claim {
	if a.all != nil {
		return a.all
	}
	return []Claim{a.claim}
}

// claimed are all claims of a request.
func (w *waiter) claimed() []Claim {
	if w.all != nil {
		return w.all
	}
	return []Claim{w.claim}
}

func (a attempt) fence() Fence { return a.grants[0].Fence }

// attempt makes a claim, or all of several.
func (b *Broker) attempt(c Claim, all []Claim) attempt {
	a := attempt{claim: c, all: all, start: time.Now()}
	if all != nil {
		a.grants, a.err = b.store.AcquireAll(b.ctx, all)
		return judge(a)
	}
	var g Grant
	g, a.err = b.store.Acquire(b.ctx, c)
	a.grants = []Grant{g}
	return judge(a)
}

// judge reads an outcome. A grant whose time is already over when the answer comes is an unknown one.
func judge(a attempt) attempt {
	if a.err == nil && !time.Now().Before(a.until()) {
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
	hurries := a.hurries
	a = b.attempt(a.claim, a.all)
	a.unsure, a.hurries = true, hurries
	if a.err != nil && !errors.Is(a.err, ErrOutcomeUnknown) {
		a.err = errors.Join(a.err, ErrOutcomeUnknown)
	}
	return a
}

// conclude gives the outcome of an attempt to the waiter it was made for, and decides when the driver makes the next
// one. It counts the failures in a row.
func (b *Broker) conclude(w *waiter, a attempt, fails int) int {
	b.mu.Lock()
	q := w.q
	var held *HeldError
	w.unsure = w.unsure || a.unsure || errors.Is(a.err, ErrOutcomeUnknown)
	if a.err == nil || errors.As(a.err, &held) {
		b.joinHeldLocked(w, a.err == nil)
	}
	w.trying = false
	q.tryAt = time.Time{}
	if w.gone {
		b.mu.Unlock()
		b.forfeit(w, a)
		return 0
	}
	defer b.mu.Unlock()
	switch {
	case w.elem == nil: // it goes on beside a hold of its holder
	case a.err == nil:
		b.grantLocked(w, a)
	case held != nil && !w.try:
		b.refusedLocked(w, a, held)
	case w.queued && retriable(a.err):
		q.tryAt = time.Now().Add(backoff(fails + 1))
		return fails + 1
	case held != nil:
		b.removeLocked(w)
		b.answerLocked(w, NotGranted{
			ID: w.id, Cause: ErrHeld, Name: held.Name, RetryAfter: max(held.RetryAfter, 0), HeldBy: held.HeldBy,
		})
	default:
		b.removeLocked(w)
		b.answerLocked(w, Failed{ID: w.id, Err: a.err})
	}
	return 0
}

// refusedLocked has a waiter wait on: for a hold to end, or for another name.
func (b *Broker) refusedLocked(w *waiter, a attempt, held *HeldError) {
	q := w.q
	elsewhere := w.all != nil && held.Name != "" && held.Name != q.name
	position := w.positionLocked()
	if w.claim.Kind == Fair && !elsewhere {
		position = held.Ahead
		q.placeLocked(w)
	}
	if b.parkLocked(w, position); w.gone {
		return
	}
	if w.all != nil && w.unsure {
		b.renameLocked(w)
	}
	switch {
	case elsewhere:
		b.moveLocked(w, held.Name)
	case w.giveWayLocked(), q.insteadLocked(w, held.HeldBy):
	case a.hurries == q.hurries:
		q.tryAt = time.Now().Add(held.pause(w.claim.Kind))
	}
}

// giveWayLocked lets waiters that have places in the store go first: for them a request for several names, which has
// none, is refused, and they must not wait behind it.
func (w *waiter) giveWayLocked() bool {
	next := w.elem.Next()
	if w.all == nil || next == nil || w.q.places == nil && !next.Value.(*waiter).placed {
		return false
	}
	w.q.waiters.MoveToBack(w.elem)
	return true
}

// forfeit gives back what an attempt took for a waiter that was answered while it was under way: to the next waiter
// if there is one. A unary caller that knows its lease id may be asking again this moment; its lease is left alone.
func (b *Broker) forfeit(w *waiter, a attempt) {
	if a.err != nil && w.placed {
		b.mu.Lock()
		b.leaveLocked(w)
		b.mu.Unlock()
	}
	switch {
	case w.ownID:
	case a.err == nil:
		for i, c := range a.claims() {
			b.passFor(nil, w, c, a.grants[i].Fence)
		}
		if w.unsure {
			b.settle(w)
		}
	case w.unsure:
		b.settle(w)
	}
}

func retriable(err error) bool {
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, ErrStoreFull)
}

// pause is how long to wait for a hold to end by itself. A place has to be kept meanwhile.
func (e *HeldError) pause(k Kind) time.Duration {
	most := pollInterval
	if k.Placed() {
		most = placeInterval
	}
	if e.RetryAfter == NoTTL {
		return most
	}
	return max(min(e.RetryAfter+time.Millisecond, most), time.Millisecond)
}
