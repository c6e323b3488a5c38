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
	if e.owner == c.Owner {
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
		w.say(e, onFair, lock.Notice{What: lock.NoticeTurn, For: head, After: left})
	case !e.occupied && e.permits == nil:
		w.say(e, onFair, lock.Notice{What: lock.NoticeReleased, For: head})
	}
}

// freedFair tells the next waiter that the name is free and says who it is. If there is none, those hear it who listen
// to all that happens.
func (w *work) freedFair(e *entry) (turn lock.Owner) {
	turn, _ = e.line.head()
	if turn == "" {
		w.say(e, onPlain, lock.Notice{What: lock.NoticeReleased})
		return ""
	}
	e.line.moved = false
	w.say(e, onFair, lock.Notice{What: lock.NoticeReleased, For: turn})
	return turn
}

// Enlist implements lock.Store. Nobody else ever takes a waiter for dead here, so no place is given at the head.
func (s *Store) Enlist(ctx context.Context, name string, owners []lock.Owner, d time.Duration) ([]int, error) {
	err := begin(ctx, lock.Fair)
	if err != nil {
		return nil, fmt.Errorf("enlist for %q: %w", name, err)
	}
	if len(owners) == 0 {
		return nil, nil
	}
	w := s.enter(1)
	answers, err := w.enlist(name, owners, d)
	w.leave()
	if err != nil {
		return nil, fmt.Errorf("enlist for %q: %w", name, err)
	}
	return answers, nil
}

func (w *work) enlist(name string, owners []lock.Owner, d time.Duration) ([]int, error) {
	e := w.entryLocked(name, w.now)
	if e.mismatch(lock.Fair) {
		return nil, lock.ErrKindMismatch
	}
	e.line.purge(w.now)
	answers := make([]int, len(owners))
	for i, o := range owners {
		before := e.line.len()
		switch {
		case o == e.owner:
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
	if err = begin(ctx, lock.Fair); err == nil {
		w := s.enter(1)
		ahead, err = w.succeed(w.peek(name), from, to, d)
		w.leave()
	}
	if err != nil {
		return lock.PlaceUnknown, fmt.Errorf("succeed %q for %q: %w", from, name, err)
	}
	return ahead, nil
}

func (w *work) succeed(e *entry, from []lock.Owner, to lock.Owner, d time.Duration) (ahead int, err error) {
	if e.mismatch(lock.Fair) {
		return lock.PlaceUnknown, lock.ErrKindMismatch
	}
	if e.owner != "" && slices.Contains(from, e.owner) {
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
	err := begin(ctx, kind)
	if err == nil && !kind.Placed() {
		err = fmt.Errorf("kind %v: %w", kind, lock.ErrUnsupported)
	}
	if err != nil {
		return fmt.Errorf("leave %q: %w", name, err)
	}
	if len(owners) == 0 {
		return nil
	}
	w := s.enter(1)
	defer w.leave()
	e := w.peek(name)
	if kind == lock.Write {
		for _, o := range owners {
			w.unwish(e, o)
		}
		return nil
	}
	for _, o := range owners {
		e.line.remove(o)
	}
	e.line.purge(w.now)
	w.settle(e)
	return nil
}

// Queue implements lock.Store.
func (s *Store) Queue(ctx context.Context, name string, from, size int) ([]lock.Owner, error) {
	if err := begin(ctx, lock.Fair); err != nil {
		return nil, fmt.Errorf("queue of %q: %w", name, err)
	}
	w := s.enter(1)
	defer w.leave()
	return w.peek(name).line.page(max(from, 0), size), nil
}
