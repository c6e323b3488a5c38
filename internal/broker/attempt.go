package broker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// attempt is a claim that was made, and its outcome.
type attempt struct {
	claim  lock.Claim
	all    []lock.Claim // if several names were claimed at once
	start  time.Time
	end    time.Time    // when the answer was dealt with
	grants []lock.Grant // one for each name
	err    error
	late   bool // it was granted, and told too late (outcomeOf)
	begun  arbiter.Begun
}

// claims are all claims of the attempt.
func (a attempt) claims() []lock.Claim {
	if a.all != nil {
		return a.all
	}
	return []lock.Claim{a.claim}
}

// fence is that of the first name.
func (a attempt) fence() lock.Fence { return a.grants[0].Fence }

// until is the end of the validity of what was granted.
func (a attempt) until() time.Time { return trusted(a.start, a.claim.TTL) }

// took says whether the store granted it, perhaps too late.
func (a attempt) took() bool { return a.err == nil || a.late }

// startLocked makes an attempt for a waiter.
func (b *Broker) startLocked(w *waiter, now time.Time) {
	b.ask(w, w.attemptLocked(now), (*Broker).finishLocked)
}

// ask asks the store, for one name without a goroutine. The caller holds the mutexes of the waiter; then is called with
// the outcome, and with them held again.
func (b *Broker) ask(w *waiter, a attempt, then func(*Broker, *waiter, attempt)) {
	if a.all != nil {
		b.goTaking(func() {
			a = b.attempt(b.ctx, a)
			w.lock()
			defer w.unlock()
			then(b, w, outcomeOf(a))
		})
		return
	}
	b.beginTaking()
	b.store.StartAcquire(a.claim, func(g lock.Grant, err error) {
		defer b.endTaking()
		a.grants, a.err = []lock.Grant{g}, err
		w.lock()
		defer w.unlock()
		then(b, w, outcomeOf(a))
	})
}

// finishLocked goes on with an attempt that startLocked began, and with the queue it began in.
func (b *Broker) finishLocked(w *waiter, a attempt) {
	q := w.q
	b.concludeLocked(w, a)
	q.NoteChange()
	b.driveLocked(q)
	q.dropIdleLocked()
}

// attemptLocked marks a waiter as being asked for, and returns the attempt to make now.
func (w *waiter) attemptLocked(now time.Time) attempt {
	a := attempt{claim: w.Ask(w.ttl(now)), start: now, begun: w.q.Begun()}
	if w.all != nil {
		a.all = append(a.all, w.all...)
		for i := range a.all {
			a.all[i].TTL = a.claim.TTL
		}
	}
	return a
}

// attempt asks the store.
func (b *Broker) attempt(ctx context.Context, a attempt) attempt {
	a.start = time.Now()
	if a.all != nil {
		a.grants, a.err = b.store.AcquireAll(ctx, a.all)
		return a
	}
	g, err := lock.Await(ctx, b.store.StartAcquire, a.claim)
	a.grants, a.err = []lock.Grant{g}, err
	return a
}

// outcomeOf is what the answer of the store amounts to now. A grant whose validity is over by now is an unknown
// outcome: the hold ends soon, but may still be there.
func outcomeOf(a attempt) attempt {
	a.end = time.Now()
	if a.err == nil && !a.end.Before(a.until()) {
		a.err, a.late = lock.ErrOutcomeUnknown, true
	}
	return a
}

// concludeLocked gives the outcome of an attempt to the waiter it was made for.
func (b *Broker) concludeLocked(w *waiter, a attempt) {
	answer, _ := b.endAttemptLocked(w, a)
	if w.tells != nil && answer.Held != nil {
		w.tells.held = answer.Held
	}
	switch answer.Verdict {
	case arbiter.Nothing:
	case arbiter.Grant:
		b.grantAndAskMoreLocked(w, a)
	case arbiter.Wait:
		b.parkLocked(w, answer.Position)
		held := func(*waiter) *lock.HeldError { return answer.Held }
		b.refuseEachLocked(w.q.Overruled(&w.Waiter, a.begun), held)
	case arbiter.Elsewhere:
		b.parkLocked(w, answer.Position)
		b.moveLocked(w, answer.Held.Name)
	case arbiter.Again:
	case arbiter.RefuseLate:
		b.parkLocked(w, answer.Position)
		b.tooLateLocked(w, a.err)
	case arbiter.RefuseHeld:
		b.refuseLocked(w, b.refusalLocked(w, answer.Held))
	case arbiter.RefuseFailed:
		b.refuseLocked(w, session.Failed{ID: w.id, Err: a.err})
	}
}

// refusalLocked answers a request that does not want to wait, from what is known of who holds the name.
func (b *Broker) refusalLocked(w *waiter, held *lock.HeldError) session.NotGranted {
	n := session.NotGranted{ID: w.id, Cause: lock.ErrHeld, RetryAfter: max(held.RetryAfter, 0)}
	if name := cmp.Or(held.Name, w.Claim.Name); !w.hides(name) {
		n.InTheWay = b.aboutLocked(name, held.HeldBy)
	}
	n.Name = held.Name
	return n
}

// endAttemptLocked ends an attempt, and says what its outcome means for the waiter. settled: the waiter was settled
// without this attempt, and what the attempt took is being undone.
func (b *Broker) endAttemptLocked(w *waiter, a attempt) (answer arbiter.Answer, settled bool) {
	w.span.asked(a.start, a.end, a.err)
	b.noteOutcomeLocked(w, a.err, a.took())
	w.Ended()
	settled = w.Answered()
	if a.err == nil || errors.Is(a.err, lock.ErrHeld) {
		w.succeeded = false
		settled = settled || b.settleNestedLocked(w, a.err == nil)
	}
	answer = w.q.StoreAnswered(&w.Waiter, a.begun, a.err, a.end)
	if settled {
		w.overLocked()
		b.undoAttemptLocked(w, a)
	}
	return answer, settled
}

// grantAndAskMoreLocked answers a waiter that was granted what it asked for. Where there was room for one shared hold
// there may be more: the store is asked for the next two at once, and for two more after each grant.
func (b *Broker) grantAndAskMoreLocked(w *waiter, a attempt) {
	q := w.q
	if !b.grantLocked(w, a) { // its session has just ended
		w.refused(errWithdrawn)
		b.removeLocked(w)
		b.undoAttemptLocked(w, a)
		return
	}
	if !w.Claim.Kind.Shared() || q.shard.closed {
		return
	}
	for _, next := range q.AlsoAsk(a.begun, 2) {
		b.startLocked(next.For, time.Now())
	}
}

// undoAttemptLocked undoes what an attempt took for a waiter that was settled while it was under way.
func (b *Broker) undoAttemptLocked(w *waiter, a attempt) {
	if !a.took() && w.Placed() {
		b.leavePlaceLocked(w)
	}
	b.undoSucceededLocked(w)
	if a.took() {
		w.mayHave = false
		b.undoTakenLocked(w, a)
	}
	b.undoDoubtfulLocked(w)
}

// undoTakenLocked passes on what an attempt took, see passOnLocked. The lease of a unary caller that chose its lease id
// is left alone (once.go).
func (b *Broker) undoTakenLocked(w *waiter, a attempt) {
	if w.repeats() {
		b.tryRepetitionLocked(w)
		return
	}
	for i, c := range a.claims() {
		b.passOnLocked(w, c, a.grants[i].Fence)
	}
}

// undoDoubtfulLocked undoes what a request that was answered or has left may have. The store must not be asked for this
// request again: a release whose answer is lost is repeated, and would end what was granted meanwhile. A unary caller
// that chose its lease id repeats the request, or releases the lease (once.go).
func (b *Broker) undoDoubtfulLocked(w *waiter) {
	switch {
	case !w.mayHave || w.Asking() || w.comesBack():
		return
	case w.repeats():
		b.tryRepetitionLocked(w)
		return
	}
	w.mayHave = false
	for _, c := range w.claimed() {
		b.undo(c.Return())
	}
}
