package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
)

// handoff is a hold being released or undone, and the waiter of this replica that shall have the name next, if any. The
// store goes on with a release whose outcome it could not tell.
type handoff struct {
	b      *Broker
	r      lock.Return
	of     *Lease // whose hold it is; nil if it is nobody's
	id     uint64 // of the request that releases the lease; 0 at the end of the session
	passes bool   // until it is over the store is asked for nobody
	lapsed bool   // the validity was over when the call began
	next   *waiter
	begun  arbiter.Begun
	start  time.Time // what is handed over lasts from then on
	res    lock.Returned
	err    error
}

// startLocked makes the call. It needs no goroutine.
func (h *handoff) startLocked(q *queue) {
	h.chooseNextLocked(q)
	h.begun, h.start = q.Begun(), time.Now()
	h.lapsed = h.of != nil && !h.of.until.After(h.start)
	h.b.beginTaking()
	h.b.store.StartRelease(h.r, h.answered)
}

// chooseNextLocked chooses whom to hand the name to.
func (h *handoff) chooseNextLocked(q *queue) {
	next := q.Successor(h.r.Kind, h.b.cfg.HandoffBurst)
	if next == nil || h.r.Place > 0 {
		return
	}
	if ttl := next.For.ttl(time.Now()); ttl > 0 { // else its client may be dead
		q.HandOver(next)
		h.next = next.For
		h.r.Next = &lock.Successor{Owner: next.Claim.Owner, TTL: ttl}
	}
}

// answered continues the queue of the name, and answers the request.
func (h *handoff) answered(res lock.Returned, err error) {
	b, part := h.b, h.b.shardOf(h.r.Name)
	defer b.endTaking()
	part.mu.Lock()
	defer part.mu.Unlock()
	h.res, h.err = res, doubtful(res, err, h.lapsed)
	b.moveOnLocked(b.queueLocked(h.r.Name), h)
	if h.of != nil {
		b.releasedLocked(h)
	}
}

// doubtful is the error of a release. If the hold is not there any more, it is assumed that an earlier call of the
// release, whose answer was lost, ended it. If the lease had lapsed before, nobody knows: others may have had the name.
func doubtful(res lock.Returned, err error, lapsed bool) error {
	if err == nil && res.Assumed && lapsed {
		return errors.Join(lock.ErrNotHeld, lock.ErrOutcomeUnknown)
	}
	return err
}

// moveOnLocked continues a queue after a hold of its name was released or undone.
//
// When the outcome is unknown, the next waiter stays the head of the queue and asks for itself: if it was handed the
// name it gets the same fence. If it left while it was handed the name, its hold is passed on in turn.
func (b *Broker) moveOnLocked(q *queue, h *handoff) {
	now := time.Now()
	if h.passes {
		q.Passed()
	}
	if h.of != nil {
		q.unholdLocked(h.of)
		h.released(now)
	}
	b.tellEnd(h)
	if h.next != nil {
		b.handedLocked(q, h)
	}
	if h.res.HandedOver == 0 {
		q.Freed(arbiter.Freed{
			Turn: h.res.Turn, Listeners: h.res.Listeners, Burst: b.cfg.HandoffBurst, Begun: h.begun,
		}, now)
	}
	if next := h.next; next != nil && !next.Answered() && next.Late(now) {
		b.tooLateLocked(next, h.err)
	}
	b.driveLocked(q)
	q.dropIdleLocked()
}

// handedLocked tells the next waiter what became of the handoff to it.
func (b *Broker) handedLocked(q *queue, h *handoff) {
	next, given := h.next, h.given()
	handed := h.res.HandedOver != 0
	next.Ended()
	b.noteOutcomeLocked(next, h.doubt(given), true)
	settled := next.Answered() || handed && given.err == nil && b.settleNestedLocked(next, true)
	switch {
	case settled:
		b.handedInVainLocked(h)
	case !handed:
	case given.err != nil: // too late
		q.Wake()
	case b.handLocked(h, given):
		q.HandedOver()
	default: // its session has just ended
		next.refused(errWithdrawn)
		b.removeLocked(next)
		b.handedInVainLocked(h)
	}
}

// doubt is the error of the handoff: if an earlier call ended the hold, nobody knows whether it gave the name to the
// next waiter. What was handed over may be told too late.
func (h *handoff) doubt(given attempt) error {
	switch {
	case h.res.HandedOver != 0:
		return given.err
	case h.err == nil && h.res.Assumed:
		return lock.ErrOutcomeUnknown
	}
	return h.err
}

// handLocked grants a waiter what it was handed, and says whether it was still there to have it.
func (b *Broker) handLocked(h *handoff, given attempt) bool {
	trace := h.next.span.sampled()
	h.next.span.handed(h.start, given.end)
	granted := b.grantLocked(h.next, given)
	if granted {
		observeIn(b.metrics.handoff, time.Since(h.start), trace)
	}
	return granted
}

// handedInVainLocked undoes what was handed to a waiter that has left.
func (b *Broker) handedInVainLocked(h *handoff) {
	next, handed := h.next, h.res.HandedOver
	next.overLocked()
	b.undoSucceededLocked(next)
	switch {
	case handed == 0:
		if next.Placed() {
			b.leavePlaceLocked(next)
		}
	case next.repeats():
		b.tryRepetitionLocked(next)
	default:
		next.mayHave = false
		b.passOnLocked(next, next.Claim, handed)
	}
	b.undoDoubtfulLocked(next)
}

// given is the handoff as an attempt of the next waiter.
func (h *handoff) given() attempt {
	c := h.next.Claim
	c.TTL = h.r.Next.TTL
	return outcomeOf(attempt{claim: c, start: h.start, grants: []lock.Grant{{Fence: h.res.HandedOver}}, err: h.err})
}

// passOnLocked frees what was granted to a waiter that had left, or hands it to the next waiter here in the same call.
// Meanwhile the store is asked for nobody else, unless the name is shared. If the session may go on elsewhere, the
// waiter has its place again instead, and nobody is handed the name.
func (b *Broker) passOnLocked(w *waiter, c lock.Claim, f lock.Fence) {
	q := b.queueLocked(c.Name)
	h := &handoff{b: b, r: c.Return()}
	h.r.Fence = f
	if w.comesBack() {
		h.r.Place = arbiter.PlaceTime
	}
	if !c.Kind.Shared() && q.holder == nil && !q.Passing() && !b.soonFreedLocked(q) {
		h.passes = true
		q.Pass()
	}
	h.startLocked(q)
}

// undo undoes what may have been taken. Nobody waits for that.
func (b *Broker) undo(r lock.Return) {
	b.beginTaking()
	b.store.StartRelease(r, func(lock.Returned, error) { b.endTaking() })
}
