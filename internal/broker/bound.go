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

// tryNextLocked has a waiter tried next.
func (b *Broker) tryNextLocked(w *waiter) {
	w.q.TryNext(&w.Waiter)
	b.driveLocked(w.q)
}
