package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// checkFair also refuses a claim if the name is free but it is the turn of another waiter. A refused claim keeps its
// place, or gets one.
func (w *work) checkFair(e *entry, c lock.Claim) error {
	if e.alone(c.Kind, c.Owner) {
		return nil
	}
	e.queue.purge(w.now)
	held := lock.HeldError{}
	by, left, busy := e.holder(w.now)
	switch {
	case busy:
		held.HeldBy, held.RetryAfter = by, left
	case e.queue.admits(c.Owner):
		return nil
	default:
		held.HeldBy = e.queue.head()
		held.RetryAfter = e.queue.until[held.HeldBy].Sub(w.now)
	}
	if c.Place > 0 {
		e.queue.keep(c.Owner, w.now.Add(c.Place))
	}
	held.Ahead = e.queue.ahead(c.Owner)
	return &held
}

// settle tells a waiter that has become the next one that the name is free, or when it will be.
func (w *work) settle(e *entry) {
	head, moved := e.queue.head(), e.queue.moved
	if e.queue.moved = false; !moved || head == "" {
		return
	}
	_, left, held := e.holder(w.now)
	switch {
	case held:
		w.say(e, lock.Fair, lock.Notice{What: lock.NoticeTurn, For: head, After: left})
	case !e.occupied && e.permits == nil:
		w.say(e, lock.Fair, lock.Notice{What: lock.NoticeReleased, For: head})
	}
}

// Enlist implements lock.Store. There is no other program here that takes waiters out, so no place is given at the
// head.
func (s *Store) Enlist(ctx context.Context, name string, owners []lock.Owner, d time.Duration) ([]int, error) {
	if len(owners) == 0 { // no error then, whatever the name is used for
		return nil, nil
	}
	return use(ctx, s, "enlist for", name, lock.Fair, func(w *work, e *entry) ([]int, error) {
		e.queue.purge(w.now)
		answers := make([]int, len(owners))
		for i, o := range owners {
			answers[i] = len(e.queue.order)
			if e.alone(lock.Fair, o) {
				answers[i] = lock.PlaceHolds
			} else if !e.queue.keep(o, w.now.Add(d)) {
				answers[i] = lock.PlaceUnknown
			}
		}
		return answers, nil
	})
}

// Succeed implements lock.Store.
func (s *Store) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	d time.Duration,
) (ahead int, err error) {
	return use(ctx, s, "succeed for", name, lock.Fair, func(w *work, e *entry) (int, error) {
		if e.alone(lock.Fair, e.owner) && slices.Contains(from, e.owner) {
			e.owner = to
			w.changed(e)
		}
		e.queue.rename(from, to, w.now.Add(d))
		if e.queue.until[to].IsZero() {
			return lock.PlaceUnknown, nil
		}
		return e.queue.ahead(to), nil
	})
}

// Leave implements lock.Store.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	_, err := do(ctx, s, "leave", name, kind, func(w *work) (any, error) {
		if !kind.Placed() {
			return nil, fmt.Errorf("kind %v: %w", kind, lock.ErrUnsupported)
		}
		e := w.find(name)
		for _, o := range owners {
			w.leavePlace(e, kind, o, true)
		}
		if kind == lock.Fair && len(owners) > 0 {
			e.queue.purge(w.now)
		}
		return nil, nil
	})
	return err
}

// Queue implements lock.Store.
func (s *Store) Queue(ctx context.Context, name string, size int) ([]lock.Owner, error) {
	return do(ctx, s, "queue of", name, lock.Fair, func(w *work) ([]lock.Owner, error) {
		order := w.find(name).queue.order
		return slices.Clone(order[:min(max(size, 0), len(order))]), nil
	})
}
