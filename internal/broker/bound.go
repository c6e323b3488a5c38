package broker

import (
	"errors"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A request with a bounded wait, 0 included, is answered when that is over. If the store is being asked for it at that
// moment, its answer is waited for, but not longer than Config.AnswerTime: then the outcome is unknown. What the store
// grants after that is given back (undoAttempt).
//
// A request that has to wait has a timer. One that was not refused yet mostly is answered within a millisecond, so all
// of those share one, which looks at them when they are as old as AnswerTime.

// boundLocked begins to bound a request that does not have to wait yet.
func (b *Broker) boundLocked(w *waiter) {
	if w.wait == forever || w.bound != nil || w.timer != nil {
		return
	}
	w.bound = b.bounded.PushBack(w)
	if b.boundAt == nil {
		b.boundAt = time.AfterFunc(b.cfg.AnswerTime, b.lookAtBounded)
	}
}

func (b *Broker) unboundLocked(w *waiter) {
	if w.bound != nil {
		b.bounded.Remove(w.bound)
		w.bound = nil
	}
}

// lookAtBounded gives a timer to those that are older than AnswerTime, and comes again when the next one is.
func (b *Broker) lookAtBounded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.bounded.Front(); e != nil && !b.closed; e = b.bounded.Front() {
		w := e.Value.(*waiter)
		if left := time.Until(w.since.Add(b.cfg.AnswerTime)); left > 0 {
			b.boundAt.Reset(left)
			return
		}
		b.unboundLocked(w)
		b.timeLocked(w)
	}
	b.boundAt = nil
}

// timeLocked gives a request with a bounded wait a timer of its own.
func (b *Broker) timeLocked(w *waiter) {
	w.timer = time.AfterFunc(time.Until(w.since.Add(w.wait)), func() { b.timeOut(w) })
}

// timeOut answers a request whose wait is over, unless the store was asked for it and may answer in time.
func (b *Broker) timeOut(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w.gone {
		return
	}
	last := w.since.Add(w.wait + b.cfg.AnswerTime)
	if left := time.Until(last); left > 0 && (w.trying || w.nests) {
		w.timer.Reset(left)
		return
	}
	switch {
	case w.trying:
		b.refuseLocked(w, Failed{ID: w.id, Err: lock.ErrOutcomeUnknown})
	case !w.queued: // its turn did not come: others ask the store for this holder
		b.refuseLocked(w, Failed{ID: w.id, Err: lock.ErrUnavailable})
	default:
		b.refuseLocked(w, w.timedOutLocked())
	}
}

// tooLateLocked answers a request whose wait is over, after a call of the store that did not grant it the name.
func (b *Broker) tooLateLocked(w *waiter, err error) {
	if errors.Is(err, lock.ErrOutcomeUnknown) {
		b.refuseLocked(w, Failed{ID: w.id, Err: lock.ErrOutcomeUnknown})
		return
	}
	b.refuseLocked(w, w.timedOutLocked())
}

// lateLocked says whether the wait of a request is over.
func (w *waiter) lateLocked() bool {
	return w.wait != forever && !time.Now().Before(w.since.Add(w.wait))
}

// timedOutLocked is the answer to a request whose wait is over. Of several names it tells the one it waited for.
func (w *waiter) timedOutLocked() NotGranted {
	n := NotGranted{ID: w.id, Cause: ErrTimedOut}
	if w.all != nil {
		n.Name = w.q.name
	}
	return n
}

// lateGrantPauses are those between looking for what an attempt that was not answered may take late.
var lateGrantPauses = [...]time.Duration{time.Second, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}

// findLateGrantLocked looks for what an attempt that was not answered may take late, while a request waits its turn and
// nobody asks for it: others would wait for it, and it for them. If it has what it asked for it is tried at once, and
// gets that.
func (b *Broker) findLateGrantLocked(w *waiter) {
	if w.lookedFor || b.closed {
		return
	}
	w.lookedFor = true
	b.wg.Go(func() {
		for _, pause := range lateGrantPauses {
			b.pause(pause)
			err := lock.ErrUnavailable
			for n := 1; retriable(err) && b.waits(w); n++ {
				if err = b.holdsAlready(w); err == nil {
					b.tryNext(w)
				} else if retriable(err) {
					b.pause(backoff(n))
				}
			}
		}
	})
}

// waits says whether a request still waits.
func (b *Broker) waits(w *waiter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !w.gone && b.ctx.Err() == nil
}

// holdsAlready asks the store whether a waiter has what it waits for. It takes nothing.
func (b *Broker) holdsAlready(w *waiter) error {
	b.mu.Lock()
	c := w.claim
	b.mu.Unlock()
	_, err := b.store.Extend(b.ctx, lock.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Permits: c.Permits})
	return err
}

// tryNext has a waiter tried next.
func (b *Broker) tryNext(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tryNextLocked(w)
}

func (b *Broker) tryNextLocked(w *waiter) {
	if !w.lined || w.trying {
		return
	}
	w.q.toFrontLocked(w)
	w.q.wakeLocked()
	b.driveLocked(w.q)
}
