package memstore

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

// Raise implements lock.Store.
func (s *Store) Raise(ctx context.Context, c lock.Claim) error {
	err := begin(ctx, c.Kind)
	if err == nil {
		w := s.enter(1)
		err = w.raise(c)
		w.leave()
	}
	if err != nil {
		return fmt.Errorf("raise the fence of %q: %w", c.Name, err)
	}
	return nil
}

func (w *work) raise(c lock.Claim) error {
	e := w.peek(c.Name)
	switch {
	case c.Kind == lock.Semaphore:
		return lock.ErrUnsupported
	case e.mismatch(c.Kind):
		return lock.ErrKindMismatch
	}
	switch r := e.shared.reads(c.Owner, w.now); {
	case c.Kind == lock.Read && r != nil:
		r.fence = max(r.fence, c.Fence)
	case c.Kind == lock.Write && e.shared.writtenBy(c.Owner):
		e.shared.fence = max(e.shared.fence, c.Fence)
	case (c.Kind == lock.Exclusive || c.Kind == lock.Fair) && e.owner == c.Owner && c.Owner != "":
	default:
		return lock.ErrNotHeld
	}
	w.changed(e)
	e.fence = max(e.fence, c.Fence)
	e.fenceUntil = w.now.Add(w.fenceTTL)
	w.settle(e)
	return nil
}
