package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// handover is a hold being given back, and the waiter of this replica that shall have the name next, if any.
type handover struct {
	r     lock.Return
	of    *Lease // whose hold it is; takenOver, or nil if it was never anybody's
	next  *waiter
	calls int       // made so far
	turns int       // hurries of the queue when it began
	start time.Time // of the first call: that one may have handed the name over, and repeating it prolongs nothing
	res   lock.Returned
	err   error
}

// giveBackTries is how often a Return is made when the store does not answer.
const giveBackTries = 3

// answered takes note of the outcome of a call and says whether another one is to be made. A hold that is not there
// any more at a repetition was given back by an earlier call.
func (h *handover) answered(res lock.Returned, err error) (again bool) {
	unsure := errors.Is(h.err, lock.ErrOutcomeUnknown)
	h.calls++
	h.res, h.err = res, err
	switch {
	case unsure && h.r.Remaining == 0 && errors.Is(err, lock.ErrNotHeld):
		h.res, h.err = lock.Returned{}, nil
	case errors.Is(err, lock.ErrOutcomeUnknown), unsure && errors.Is(err, lock.ErrUnavailable):
		h.err = errors.Join(err, lock.ErrOutcomeUnknown)
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
// call, or freed. of is the lease whose hold it is, nil if it was never one. The error is that of the hold.
func (b *Broker) pass(q *queue, of *Lease, r lock.Return) error {
	b.mu.Lock()
	h := b.handoverLocked(q, of, r)
	b.mu.Unlock()
	b.giveBack(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moveOnLocked(q, h)
}

// handoverLocked chooses whom to hand the name to.
func (b *Broker) handoverLocked(q *queue, of *Lease, r lock.Return) *handover {
	h := &handover{r: r, of: of, turns: q.hurries}
	now := time.Now()
	w := q.successorLocked(r.Kind, b.cfg.HandoffBurst, now)
	if w == nil || of != nil && of.unsure { // it could be held once more, and handed over once more
		return h
	}
	w.trying = true
	h.next = w
	h.r.Next = &lock.Successor{Owner: w.claim.Owner, TTL: w.ttlLocked(now)}
	return h
}

// moveOnLocked continues a queue after its name was given back, and returns the error of that.
//
// When the outcome is unknown, the next waiter stays the head of the queue and asks for itself: if it was handed the
// name it gets the same fence. If it left while it was given the name, its hold is passed on in turn, and if that
// fails, it is tried again in the background.
func (b *Broker) moveOnLocked(q *queue, h *handover) error {
	q.leftLocked(h.of)
	b.toldLocked(h)
	defer b.dropIdleLocked(q)
	defer b.driveLocked(q)
	next, given := h.next, h.given()
	if next != nil {
		if next.gone && next.ownID {
			b.spareLocked(next, h.res.HandedOver != 0)
		}
		if h.res.HandedOver != 0 && given.err == nil {
			b.joinHeldLocked(next, true)
		}
		next.trying = false
		next.unsure = next.unsure || errors.Is(h.err, lock.ErrOutcomeUnknown)
	}
	switch {
	case h.res.HandedOver == 0:
		b.freedLocked(q, h)
		if next != nil && next.gone && next.unsure && !next.ownID {
			b.settleWaiterLocked(next)
		}
	case next.gone && next.ownID:
	case next.gone:
		q.holder = takenOver
		b.takeLocked(func() { b.passFor(takenOver, next, next.claim, h.res.HandedOver) })
	case given.err == nil:
		q.burst++
		b.metrics.handoff.Observe(time.Since(h.start).Seconds())
		b.grantLocked(next, given)
	default: // too late
		q.hurryLocked()
	}
	if next != nil && next.gone && next.placed && h.res.HandedOver == 0 {
		b.leaveLocked(next)
	}
	if next != nil && !next.gone && next.lateLocked() {
		b.tooLateLocked(next, h.err)
	}
	return h.err
}

// given is the hand-over as an attempt of the next waiter.
func (h *handover) given() attempt {
	if h.next == nil {
		return attempt{}
	}
	c := h.next.claim
	c.TTL = h.r.Next.TTL
	return judge(attempt{claim: c, start: h.start, grants: []lock.Grant{{Fence: h.res.HandedOver}}, err: h.err})
}

// freedLocked has a queue try again after its name was freed, unless it is the turn of somebody elsewhere and nothing
// was heard since.
func (b *Broker) freedLocked(q *queue, h *handover) {
	q.yield = q.burst >= b.cfg.HandoffBurst && h.res.Listeners > 0
	q.burst = 0
	if turn := h.res.Turn; turn != "" && q.places != nil && !q.meantLocked(lock.Notice{For: turn}) && h.turns == q.hurries {
		q.tryAt = time.Now().Add(placeInterval)
		return
	}
	q.hurryLocked()
}

// passFor passes on what a waiter got that had left. of is takenOver if the queue waits for that.
func (b *Broker) passFor(of *Lease, w *waiter, c lock.Claim, f lock.Fence) {
	b.mu.Lock()
	q := b.queueLocked(c.Name)
	b.mu.Unlock()
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: f, Permits: c.Permits}
	if err := b.pass(q, of, r); retriable(err) {
		b.settle(w)
	}
}

// takenOver stands for the holder of a name that is being passed on and belongs to nobody.
var takenOver = new(Lease)
