package memstore

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

// Raise implements lock.Store.
func (s *Store) Raise(ctx context.Context, c lock.Claim) (f lock.Fence, err error) {
	err = begin(ctx, c.Kind)
	if err == nil {
		w := s.enter(1)
		f, err = w.raise(c)
		w.leave()
	}
	if err != nil {
		return 0, fmt.Errorf("raise the fence of %q: %w", c.Name, err)
	}
	return f, nil
}

func (w *work) raise(c lock.Claim) (f lock.Fence, err error) {
	e := w.peek(c.Name)
	switch {
	case c.Kind == lock.Semaphore:
		return 0, lock.ErrUnsupported
	case e.mismatch(c.Kind):
		return 0, lock.ErrKindMismatch
	}
	switch r := e.shared.reads(c.Owner, w.now); {
	case c.Kind == lock.Read && r != nil:
		f = max(r.fence, c.Fence)
		r.fence = f
	case c.Kind == lock.Write && e.shared.writtenBy(c.Owner):
		f = max(e.shared.fence, c.Fence)
		e.shared.fence = f
	case (c.Kind == lock.Exclusive || c.Kind == lock.Fair) && e.owner == c.Owner && c.Owner != "":
		f = max(e.fence, c.Fence)
	default:
		return 0, lock.ErrNotHeld
	}
	w.changed(e)
	e.fence = max(e.fence, c.Fence)
	e.fenceUntil = w.now.Add(w.fenceTTL)
	w.settle(e)
	return f, nil
}
