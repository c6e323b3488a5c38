package broker

import (
	"errors"
	"time"
)

// handover is a hold being given back, and the waiter of this replica that shall have the name next, if any.
type handover struct {
	r     Return
	next  *waiter
	calls int       // made so far
	start time.Time // of the first call: that one may have handed the name over, and repeating it prolongs nothing
	res   Returned
	err   error
}

// giveBackTries is how often a Return is made when the store does not answer.
const giveBackTries = 3

// answered takes note of the outcome of a call and says whether another one is to be made. A hold that is not there
// any more at a repetition was given back by an earlier call.
func (h *handover) answered(res Returned, err error) (again bool) {
	unsure := errors.Is(h.err, ErrOutcomeUnknown)
	h.calls++
	h.res, h.err = res, err
	switch {
	case unsure && h.r.Remaining == 0 && errors.Is(err, ErrNotHeld):
		h.res, h.err = Returned{}, nil
	case errors.Is(err, ErrOutcomeUnknown), unsure && errors.Is(err, ErrUnavailable):
		h.err = errors.Join(err, ErrOutcomeUnknown)
		return h.calls < giveBackTries
	}
	return false
}

// giveBack makes the calls that are left.
func (b *Broker) giveBack(h *handover) {
	if h.calls == 0 {
		h.start = time.Now()
	}
	for again := true; again; {
		again = h.answered(b.store.Release(b.ctx, h.r))
	}
}

// pass gives a hold back and lets the queue move on: the name is handed to the next waiter here, in the same store
// call, or freed. The error is that of the hold.
func (b *Broker) pass(q *queue, r Return) error {
	b.mu.Lock()
	h := b.handoverLocked(q, r)
	b.mu.Unlock()
	b.giveBack(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moveOnLocked(q, h)
}

// handoverLocked chooses whom to hand the name to.
func (b *Broker) handoverLocked(q *queue, r Return) *handover {
	h := &handover{r: r}
	now := time.Now()
	w := q.successorLocked(b.cfg.HandoffBurst, now)
	if w == nil || w.claim.Kind != r.Kind {
		return h
	}
	w.trying = true
	h.next = w
	h.r.Next = &Successor{Owner: w.claim.Owner, TTL: w.ttlLocked(now)}
	return h
}

// moveOnLocked continues a queue after its name was given back, and returns the error of that.
//
// When the outcome is unknown, the next waiter stays the head of the queue and asks for itself: if it was handed the
// name it gets the same fence. If it left while it was given the name, its hold is passed on in turn, and if that
// fails, it is tried again in the background.
func (b *Broker) moveOnLocked(q *queue, h *handover) error {
	q.holder = nil
	defer b.dropIdleLocked(q)
	defer b.driveLocked(q)
	next := h.next
	if next == nil {
		q.yield = q.burst >= b.cfg.HandoffBurst && h.res.Listeners > 0
		q.burst = 0
		return h.err
	}
	next.trying = false
	next.unsure = next.unsure || errors.Is(h.err, ErrOutcomeUnknown)
	given := judge(Claim{TTL: h.r.Next.TTL}, h.start, Grant{Fence: h.res.HandedOver}, h.err)
	switch {
	case next.gone && next.ownID:
	case next.gone && h.res.HandedOver > 0:
		q.holder = takenOver
		b.takeLocked(func() { b.passFor(q, next, h.res.HandedOver) })
	case next.gone && next.unsure:
		b.settleLocked(next.claim, next.sess, 0)
	case h.res.HandedOver > 0 && given.err == nil:
		q.burst++
		b.metrics.handoff.Observe(time.Since(h.start).Seconds())
		b.grantLocked(q, next, given)
	}
	return h.err
}

// passFor passes on what a waiter got that had left.
func (b *Broker) passFor(q *queue, w *waiter, f Fence) {
	err := b.pass(q, Return{Name: q.name, Kind: w.claim.Kind, Owner: w.claim.Owner, Fence: f})
	if retriable(err) {
		b.settle(w.claim, w.sess)
	}
}

// takenOver stands for the holder of a name that is being passed on and belongs to nobody.
var takenOver = new(Lease)
