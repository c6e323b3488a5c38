package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// checkFair refuses a claim also if the name is free but it is the turn of another. A refused claim keeps its place, or
// gets one.
func (w *work) checkFair(e *entry, c lock.Claim) error {
	if e.alone(c.Kind, c.Owner) {
		return nil
	}
	e.line.purge(w.now)
	held := lock.HeldError{}
	by, left, busy := e.holder(w.now)
	switch {
	case busy:
		held.HeldBy, held.RetryAfter = by, left
	case e.line.admits(c.Owner):
		return nil
	default:
		head, until := e.line.head()
		held.HeldBy, held.RetryAfter = head, until.Sub(w.now)
	}
	if c.Place > 0 {
		w.join(e, c.Owner, c.Place)
	}
	held.Ahead = e.line.ahead(c.Owner)
	return &held
}

// join keeps or makes a place.
func (w *work) join(e *entry, o lock.Owner, d time.Duration) (joined bool) {
	if e.line == nil {
		e.line = newLine()
	}
	return e.line.keep(o, w.now.Add(d))
}

// settle tells the waiter that has become the next one what it has to know: that the name is free, or until when not.
func (w *work) settle(e *entry) {
	if e.line == nil || !e.line.moved {
		return
	}
	e.line.moved = false
	head, _ := e.line.head()
	if head == "" {
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

// Enlist implements lock.Store. Nobody else ever takes a waiter for dead here, so no place is given at the head.
func (s *Store) Enlist(ctx context.Context, name string, owners []lock.Owner, d time.Duration) ([]int, error) {
	return do(ctx, s, "enlist for", name, lock.Fair, func(w *work) ([]int, error) {
		if len(owners) == 0 {
			return nil, nil
		}
		return w.enlist(w.entryLocked(name, w.now), owners, d)
	})
}

func (w *work) enlist(e *entry, owners []lock.Owner, d time.Duration) ([]int, error) {
	if e.mismatch(lock.Fair) {
		return nil, lock.ErrKindMismatch
	}
	e.line.purge(w.now)
	answers := make([]int, len(owners))
	for i, o := range owners {
		before := e.line.len()
		switch {
		case e.alone(lock.Fair, o):
			answers[i] = lock.PlaceHolds
		case w.join(e, o, d):
			answers[i] = before
		default:
			answers[i] = lock.PlaceUnknown
		}
	}
	w.settle(e)
	return answers, nil
}

// Succeed implements lock.Store.
func (s *Store) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	d time.Duration,
) (ahead int, err error) {
	ahead, err = do(ctx, s, "succeed for", name, lock.Fair, func(w *work) (int, error) {
		return w.succeed(w.peek(name), from, to, d)
	})
	if err != nil {
		ahead = lock.PlaceUnknown
	}
	return ahead, err
}

func (w *work) succeed(e *entry, from []lock.Owner, to lock.Owner, d time.Duration) (ahead int, err error) {
	if e.mismatch(lock.Fair) {
		return lock.PlaceUnknown, lock.ErrKindMismatch
	}
	if e.alone(lock.Fair, e.owner) && slices.Contains(from, e.owner) {
		e.owner = to
		w.changed(e)
	}
	e.line.rename(from, to, w.now.Add(d))
	if !e.line.has(to) {
		return lock.PlaceUnknown, nil
	}
	return e.line.ahead(to), nil
}

// Leave implements lock.Store.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	_, err := do(ctx, s, "leave", name, kind, func(w *work) (any, error) {
		if !kind.Placed() {
			return nil, fmt.Errorf("kind %v: %w", kind, lock.ErrUnsupported)
		}
		e := w.peek(name)
		for _, o := range owners {
			w.leavePlace(e, kind, o, true)
		}
		if kind == lock.Fair && len(owners) > 0 {
			e.line.purge(w.now)
			w.settle(e)
		}
		return nil, nil
	})
	return err
}

// Queue implements lock.Store.
func (s *Store) Queue(ctx context.Context, name string, from, size int) ([]lock.Owner, error) {
	return do(ctx, s, "queue of", name, lock.Fair, func(w *work) ([]lock.Owner, error) {
		return w.peek(name).line.page(max(from, 0), size), nil
	})
}
