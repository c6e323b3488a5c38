package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A request with a bounded wait, 0 included, is answered when that is over. If the store is being asked for it at that
// moment, its answer is waited for, but not longer than Config.AnswerTime: then the outcome is unknown. What the store
// grants after that is given back (undoAttemptLocked).
//
// A request that has to wait has a timer. One that was not refused yet mostly is answered within a millisecond, so all
// of those share one, which looks at them when they are as old as AnswerTime.

// boundLocked begins to bound a request that does not have to wait yet.
func (b *Broker) boundLocked(w *waiter) {
	if w.Wait == arbiter.Forever || w.bound != nil || w.timer != nil {
		return
	}
	h := w.shard
	w.bound = h.bounded.PushBack(w)
	if h.boundAt == nil {
		h.boundAt = time.AfterFunc(b.cfg.AnswerTime, func() { b.lookAtBounded(h) })
	}
}

func (w *waiter) unboundLocked() {
	if w.bound != nil {
		w.shard.bounded.Remove(w.bound)
		w.bound = nil
	}
}

// lookAtBounded gives a timer to those that are older than AnswerTime, and comes again when the next one is.
func (b *Broker) lookAtBounded(h *shard) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for e := h.bounded.Front(); e != nil && !h.closed; e = h.bounded.Front() {
		w := e.Value.(*waiter)
		if left := time.Until(w.Since.Add(b.cfg.AnswerTime)); left > 0 {
			h.boundAt.Reset(left)
			return
		}
		w.unboundLocked()
		b.timeLocked(w)
	}
	h.boundAt = nil
}

// timeLocked gives a request with a bounded wait a timer of its own.
func (b *Broker) timeLocked(w *waiter) {
	w.timer = time.AfterFunc(time.Until(w.Since.Add(w.Wait)), func() { b.timeOut(w) })
}

// timeOut answers a request whose wait is over, unless the store was asked for it and may answer in time.
func (b *Broker) timeOut(w *waiter) {
	w.lock()
	defer w.unlock()
	if w.Answered() {
		return
	}
	last := w.Since.Add(w.Wait + b.cfg.AnswerTime)
	if left := time.Until(last); left > 0 && (w.Asking() || w.apart) {
		w.timer.Reset(left)
		return
	}
	switch {
	case w.Asking():
		b.refuseLocked(w, session.Failed{ID: w.id, Err: lock.ErrOutcomeUnknown})
	case !w.Waits(): // its turn did not come: others ask the store for this holder
		b.refuseLocked(w, session.Failed{ID: w.id, Err: lock.ErrUnavailable})
	default:
		b.refuseLocked(w, w.timedOutLocked())
	}
}

// tooLateLocked answers a request whose wait is over, after a call of the store that did not grant it the name.
func (b *Broker) tooLateLocked(w *waiter, err error) {
	if errors.Is(err, lock.ErrOutcomeUnknown) {
		b.refuseLocked(w, session.Failed{ID: w.id, Err: lock.ErrOutcomeUnknown})
		return
	}
	b.refuseLocked(w, w.timedOutLocked())
}

// timedOutLocked is the answer to a request whose wait is over. Of several names it tells the one it waited for.
func (w *waiter) timedOutLocked() session.NotGranted {
	n := session.NotGranted{ID: w.id, Cause: session.ErrTimedOut}
	if w.all != nil {
		n.Name = w.q.Name()
	}
	return n
}

// lateGrantPauses are those between looking for what an attempt that was not answered may take late.
var lateGrantPauses = [...]time.Duration{time.Second, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}

// findLateGrantLocked looks for what an attempt that was not answered may take late, while a request waits its turn and
// nobody asks for it: others would wait for it, and it for them. If it has what it asked for it is tried at once, and
// gets that.
func (b *Broker) findLateGrantLocked(w *waiter) {
	if !w.Unsure || w.lookedFor || w.shard.closed {
		return
	}
	w.lookedFor = true
	b.wg.Go(func() {
		for _, pause := range lateGrantPauses {
			b.pause(pause)
			err := lock.ErrUnavailable
			for n := 1; lock.Retriable(err) && b.waits(w); n++ {
				if err = b.holdsAlready(w); err == nil {
					w.lock()
					b.tryNextLocked(w)
					w.unlock()
				} else if lock.Retriable(err) {
					b.pause(arbiter.Backoff(n))
				}
			}
		}
	})
}

// waits says whether a request still waits.
func (b *Broker) waits(w *waiter) bool {
	w.lock()
	defer w.unlock()
	return !w.Answered() && b.ctx.Err() == nil
}

// holdsAlready asks the store whether a waiter has what it waits for. It takes nothing.
func (b *Broker) holdsAlready(w *waiter) error {
	w.lock()
	c := w.Claim
	w.unlock()
	_, err := b.store.Extend(b.ctx, lock.Renewal{
		Name: c.Name, Kind: c.Kind, Owner: c.Owner, Permits: c.Permits, Tenant: c.Tenant,
	})
	return err
}

// tryNextLocked has a waiter tried next.
func (b *Broker) tryNextLocked(w *waiter) {
	w.q.TryNext(&w.Waiter)
	b.driveLocked(w.q)
}
