package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/arbiter"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// A request with a bounded wait, 0 included, is answered when its wait is over. If the store is being asked for it at
// that moment, it waits for the store's answer, but no longer than Config.AnswerTime: then its outcome is unknown. What
// the store grants after that is undone (undoAttemptLocked).

// boundLocked bounds the wait of a request. One that nobody keeps waiting yet has AnswerTime more, for an attempt. One
// that follows others has two thirds of that more: the rest is for an attempt of its own.
func (b *Broker) boundLocked(w *waiter) {
	if w.Wait == arbiter.Forever {
		return
	}
	end := w.Since.Add(w.Wait)
	switch {
	case w.q.Follows(&w.Waiter):
		end = end.Add(b.cfg.AnswerTime * 2 / 3)
	case !w.Waits():
		end = end.Add(b.cfg.AnswerTime)
	}
	if w.timer == nil {
		w.timer = time.AfterFunc(time.Until(end), func() { b.timeOut(w) })
	} else {
		w.timer.Reset(time.Until(end))
	}
}

// timeOut answers a request whose wait is over, unless the store was asked for it and may answer in time.
func (b *Broker) timeOut(w *waiter) {
	w.lock()
	defer w.unlock()
	if w.Answered() {
		return
	}
	left, follows := time.Until(w.Since.Add(w.Wait+b.cfg.AnswerTime)), w.q.Follows(&w.Waiter)
	switch {
	case left > 0 && (w.Asking() || w.apart || !w.Waits() && !follows):
		w.timer.Reset(left)
	case w.Asking():
		b.refuseLocked(w, session.Failed{ID: w.id, Err: lock.ErrOutcomeUnknown})
	case follows: // others come first
		b.refuseLocked(w, b.refusalLocked(w, w.q.heldHereLocked(w)))
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
