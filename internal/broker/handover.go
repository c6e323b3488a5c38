package broker

import (
	"errors"
	"time"

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
}

// returnTries is how often a Return is made when the store does not answer.
const returnTries = 3

// answered takes note of the outcome of a call and says whether another one is to be made. A hold that is not there
// any more at a repetition was given back by an earlier call.
func (h *handover) answered(res lock.Returned, err error) (again bool) {
	before := errors.Is(h.err, lock.ErrOutcomeUnknown)
	h.calls++
	h.res, h.err = res, err
	switch {
	case before && h.r.Remaining == 0 && errors.Is(err, lock.ErrNotHeld):
		h.res, h.err = lock.Returned{}, nil
	case errors.Is(err, lock.ErrOutcomeUnknown), before && errors.Is(err, lock.ErrUnavailable):
		h.err = errors.Join(err, lock.ErrOutcomeUnknown)
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

// handOn gives a hold back and lets the queue move on: the name is handed to the next waiter here, in the same store
// call, or freed. of is the lease whose hold it is, nil if it was never one. The error is that of the hold.
func (b *Broker) handOn(q *queue, of *Lease, r lock.Return) error {
	b.mu.Lock()
	h := b.handoverLocked(q, of, r)
	b.mu.Unlock()
	b.makeReturn(h)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moveOnLocked(q, h)
}

// handoverLocked chooses whom to hand the name to.
func (b *Broker) handoverLocked(q *queue, of *Lease, r lock.Return) *handover {
	h := &handover{r: r, of: of, wakeups: q.wakeups}
	now := time.Now()
	w := q.successorLocked(r.Kind, b.cfg.HandoffBurst, now)
	if w == nil || of != nil && of.lateGrant { // it could be held once more, and handed over once more
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
	q.unholdLocked(h.of)
	b.tellEnd(h)
	defer b.dropIdleLocked(q)
	defer b.driveLocked(q)
	next, given := h.next, h.given()
	if next != nil {
		if next.gone && next.ownID {
			b.leaveToTwinLocked(next, h.res.HandedOver != 0)
		}
		if h.res.HandedOver != 0 && given.err == nil {
			b.joinHeldLocked(next, true)
		}
		next.trying = false
		next.outcomeUnknown = next.outcomeUnknown || errors.Is(h.err, lock.ErrOutcomeUnknown)
	}
	switch {
	case h.res.HandedOver == 0:
		b.freedLocked(q, h)
		if next != nil && next.gone && next.outcomeUnknown && !next.ownID {
			b.undoLaterLocked(next)
		}
	case next.gone && next.ownID:
	case next.gone:
		q.holder = takenOver
		b.goTakingLocked(func() { b.undoGrant(takenOver, next, next.claim, h.res.HandedOver) })
	case given.err == nil:
		q.burst++
		b.metrics.handoff.Observe(time.Since(h.start).Seconds())
		b.grantLocked(next, given)
	default: // too late
		q.wakeLocked()
	}
	if next != nil && next.gone && next.placed && h.res.HandedOver == 0 {
		b.leavePlaceLocked(next)
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
	q.yield = int(q.burst) >= b.cfg.HandoffBurst && h.res.Listeners > 0
	q.burst = 0
	if turn := h.res.Turn; turn != "" && q.places != nil && !q.meantLocked(lock.Notice{For: turn}) && h.wakeups == q.wakeups {
		q.tryAt = time.Now().Add(placeInterval)
		return
	}
	q.wakeLocked()
}

// undoGrant passes on what a waiter got that had left. of is takenOver if the queue waits for that.
func (b *Broker) undoGrant(of *Lease, w *waiter, c lock.Claim, f lock.Fence) {
	b.mu.Lock()
	q := b.queueLocked(c.Name)
	b.mu.Unlock()
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: f, Permits: c.Permits}
	if err := b.handOn(q, of, r); retriable(err) {
		b.undoLater(w)
	}
}

// takenOver stands for the holder of a name that is being passed on and belongs to nobody.
var takenOver = &Lease{rare: nothing}
