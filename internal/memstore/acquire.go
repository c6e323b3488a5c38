package memstore

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

// acquire makes one claim.
func (w *work) acquire(c lock.Claim) (lock.Grant, error) {
	e := w.entryLocked(c.Name, w.now)
	if c.Count > 1 && c.Kind != lock.Semaphore {
		return w.nest(e, c)
	}
	err := w.check(e, c)
	if err != nil {
		w.settle(e)
		return lock.Grant{}, err
	}
	g := w.take(e, c)
	w.settle(e)
	return g, nil
}

// check says what is in the way of a claim with Count 1. It changes nothing but places.
func (w *work) check(e *entry, c lock.Claim) error {
	if e.mismatch(c.Kind) {
		return lock.ErrKindMismatch
	}
	switch c.Kind {
	case lock.Fair:
		return w.checkFair(e, c)
	case lock.Read:
		return w.checkRead(e, c)
	case lock.Write:
		return w.checkWrite(e, c)
	case lock.Semaphore:
		return w.checkPermits(e, c)
	default:
		return w.checkPlain(e, c)
	}
}

// take does what check allowed: the hold is new, or it is the owner's and the claim a repetition.
func (w *work) take(e *entry, c lock.Claim) lock.Grant {
	w.changed(e)
	switch c.Kind {
	case lock.Read:
		return w.takeRead(e, c)
	case lock.Write:
		return w.takeWrite(e, c)
	case lock.Semaphore:
		return w.takePermits(e, c)
	default:
		return w.takePlain(e, c)
	}
}

// nest makes a claim of an owner that must hold the name already.
func (w *work) nest(e *entry, c lock.Claim) (lock.Grant, error) {
	if e.mismatch(c.Kind) {
		return lock.Grant{}, lock.ErrKindMismatch
	}
	w.changed(e)
	switch c.Kind {
	case lock.Read:
		return w.nestRead(e, c)
	case lock.Write:
		return w.nestWrite(e, c)
	default:
		return w.nestPlain(e, c)
	}
}

// AcquireAll implements lock.Store.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	for _, c := range cs {
		if err := begin(ctx, c.Kind); err != nil {
			return nil, fmt.Errorf("acquire %q with others: %w", c.Name, err)
		}
	}
	w := s.enter(len(cs))
	gs, err := w.acquireAll(cs)
	w.leave()
	return gs, err
}

func (w *work) acquireAll(cs []lock.Claim) ([]lock.Grant, error) {
	es := make([]*entry, len(cs))
	defer func() {
		for _, e := range es {
			w.settle(e)
		}
	}()
	for i, c := range cs {
		if es[i] = w.entryLocked(c.Name, w.now); es[i].mismatch(c.Kind) {
			es = es[:i+1]
			return nil, fmt.Errorf("acquire %q with others: %w", c.Name, lock.ErrKindMismatch)
		}
	}
	for i, c := range cs {
		err := w.check(es[i], c)
		if err == nil {
			continue
		}
		if held, ok := err.(*lock.HeldError); ok { //nolint:errorlint // check wraps nothing
			held.Name = c.Name
		}
		return nil, fmt.Errorf("acquire %q with others: %w", c.Name, err)
	}
	gs := make([]lock.Grant, len(cs))
	for i, c := range cs {
		gs[i] = w.take(es[i], c)
	}
	return gs, nil
}
