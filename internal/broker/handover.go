package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
)

// handover is a hold being given back, and the waiter of this replica that shall have the name next, if any.
type handover struct {
	r       lock.Return
	of      *Lease // whose hold it is; takenOver, or nil if it was never anybody's
	next    *waiter
	calls   int       // made so far
	wakeups int32     // of the queue when it began
	start   time.Time // of the first call: that one may have handed the name over, and repeating it prolongs nothing
	res     lock.Returned
	err     error
	unknown bool // the outcome of a call was
	lapsed  bool // its lease may have been over when it began
}

// returnTries is how often a Return is made when the store does not answer.
const returnTries = 3

// answered notes the outcome of a call and says whether another one is to be made. A hold that is not there
// any more at a repetition was given back by an earlier call, if its lease lasted when that was made. Else nobody
// knows: it may have ended by itself, and others may have had the name.
func (h *handover) answered(res lock.Returned, err error) (again bool) {
	before := errors.Is(h.err, lock.ErrOutcomeUnknown)
	h.calls++
	h.res, h.err = res, err
	switch gone := errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, lock.ErrOver); {
	case err == nil && res.Assumed && h.lapsed:
		h.res, h.err = lock.Returned{}, errors.Join(lock.ErrNotHeld, lock.ErrOutcomeUnknown)
	case before && h.r.Keep == 0 && gone && h.lapsed:
		h.err = errors.Join(err, lock.ErrOutcomeUnknown)
	case before && h.r.Keep == 0 && gone:
		h.res, h.err = lock.Returned{}, nil
	case errors.Is(err, lock.ErrOutcomeUnknown), before && errors.Is(err, lock.ErrUnavailable):
		h.err, h.unknown = errors.Join(err, lock.ErrOutcomeUnknown), true
		return h.calls < returnTries
	}
	return false
}

// makeReturn makes the calls that are left.
func (b *Broker) makeReturn(h *handover) {
	if h.calls == 0 {
		h.start = time.Now()
	}
	for again := true; again; {
		again = h.answered(b.store.Release(b.ctx, h.r))
	}
}

// handoverLocked chooses whom to hand the name to.
func (b *Broker) handoverLocked(q *queue, of *Lease, r lock.Return) *handover {
	h := &handover{r: r, of: of, wakeups: q.Wakeups()}
	h.lapsed = of != nil && of != takenOver && !of.until.After(time.Now())
	if of != nil && of.lateGrant { // it could be held once more, and handed over once more
		return h
	}
	next := q.Successor(r.Kind, b.cfg.HandoffBurst)
	if next == nil {
		return h
	}
	if ttl := next.For.ttl(time.Now()); ttl > 0 { // else its client may be dead
		q.HandOver(next)
		h.next = next.For
		h.r.Next = &lock.Successor{Owner: next.Claim.Owner, TTL: ttl}
	}
	return h
}

// moveOnLocked continues a queue after its name was given back, and returns the error of that.
//
// When the outcome is unknown, the next waiter stays the head of the queue and asks for itself: if it was handed the
// name it gets the same fence. If it left while it was given the name, its hold is passed on in turn, and if that
// fails, it is tried again in the background.
func (b *Broker) moveOnLocked(q *queue, h *handover) error {
	switch h.of {
	case nil:
	case takenOver:
		q.Passed()
	default:
		q.unholdLocked(h.of)
	}
	b.tellEnd(h)
	if h.next != nil {
		b.handedLocked(q, h)
	}
	if h.res.HandedOver == 0 {
		q.Freed(arbiter.Freed{
			Turn: h.res.Turn, Listeners: h.res.Listeners, Burst: b.cfg.HandoffBurst, Wakeups: h.wakeups,
		}, time.Now())
	}
	if next := h.next; next != nil && !next.Answered() && next.Late(time.Now()) {
		b.tooLateLocked(next, h.err)
	}
	b.driveLocked(q)
	q.dropIdleLocked()
	return h.err
}

// handedLocked tells the next waiter what became of the hand-over to it.
func (b *Broker) handedLocked(q *queue, h *handover) {
	next, given := h.next, h.given()
	handed := h.res.HandedOver != 0
	if handed && given.err == nil && !next.Answered() {
		b.joinLeasesLocked(next, true)
	}
	next.Ended()
	next.Unsure = next.Unsure || h.unknown && !handed // a minority of several stores may have done it
	switch {
	case next.Answered():
		b.handedInVainLocked(q, h)
	case !handed:
	case given.err != nil: // too late
		q.Wake()
	case b.handLocked(h, given):
		q.HandedOver()
	default: // its session has just ended
		next.spanRefused(errWithdrawn)
		b.removeLocked(next)
		b.handedInVainLocked(q, h)
	}
}

// handLocked grants a waiter what it was handed, and says whether it was still there to have it.
func (b *Broker) handLocked(h *handover, given attempt) bool {
	trace := h.next.span.Sampled()
	h.next.span.Handed(h.start, given.end)
	granted := b.grantLocked(h.next, given)
	if granted {
		observeIn(b.metrics.handoff, time.Since(h.start), trace)
	}
	return granted
}

// handedInVainLocked gives back what a waiter may have been handed that has left.
func (b *Broker) handedInVainLocked(q *queue, h *handover) {
	next, handed, unsure := h.next, h.res.HandedOver, h.next.Unsure
	switch {
	case next.ownID:
		b.leaveToRepetitionLocked(next, handed != 0)
	case handed != 0:
		q.Pass()
		b.goTaking(func() {
			b.undoGrant(takenOver, next, next.Claim, handed)
			if unsure { // an earlier attempt may be carried out yet
				b.undoLater(next)
			}
		})
		return
	case unsure:
		b.undoLater(next)
	}
	if next.Placed() && handed == 0 {
		b.leavePlaceLocked(next)
	}
}

// given is the hand-over as an attempt of the next waiter.
func (h *handover) given() attempt {
	c := h.next.Claim
	c.TTL = h.r.Next.TTL
	return outcomeOf(attempt{claim: c, start: h.start, grants: []lock.Grant{{Fence: h.res.HandedOver}}, err: h.err})
}

// undoGrant passes on what a waiter got that had left: to the next waiter here, in the same call, or to nobody. of is
// takenOver if the queue waits for that.
func (b *Broker) undoGrant(of *Lease, w *waiter, c lock.Claim, f lock.Fence) {
	part := b.shardOf(c.Name)
	part.mu.Lock()
	q := b.queueLocked(c.Name)
	h := b.handoverLocked(q, of, lock.Return{
		Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: f, Permits: c.Permits, Tenant: c.Tenant,
	})
	part.mu.Unlock()
	b.makeReturn(h)
	part.mu.Lock()
	defer part.mu.Unlock()
	if lock.Retriable(b.moveOnLocked(q, h)) {
		b.undoLater(w)
	}
}

// takenOver stands for the holder of a name that is being passed on and belongs to nobody.
var takenOver = &Lease{extras: nothing}
