package memstore

import (
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
)

// Shorten implements lock.Store.
func (s *Store) Shorten(ctx context.Context, r lock.Renewal) error {
	err := begin(ctx, r.Kind)
	if err == nil {
		w := s.enter(1)
		err = w.shorten(r)
		w.leave()
	}
	if err != nil {
		return fmt.Errorf("shorten %q: %w", r.Name, err)
	}
	return nil
}

func (w *work) shorten(r lock.Renewal) error {
	there := r
	there.TTL = 0
	if _, err := w.renew(there); err != nil {
		return err
	}
	e := w.peek(r.Name)
	ends := w.now.Add(r.TTL)
	switch r.Kind {
	case lock.Read:
		e.shared.readers[r.Owner].end(w.now, ends)
		if e.shared.writer != "" {
			later(&e.shared.expires, w.now, r.TTL)
		} else {
			w.drain(e)
		}
	case lock.Write: // readers beside the writer keep their time
		_, _, left := e.shared.alive(w.now)
		e.shared.expires = w.now.Add(max(r.TTL, left))
	case lock.Semaphore:
		w.endPermits(e.permits, r)
	default:
		e.expires = ends
	}
	e.fenceUntil = w.now.Add(w.fenceTTL)
	w.shortened(e, r.Kind)
	return nil
}

// endPermits has the permits of a hold end at a time.
func (w *work) endPermits(p *semaphore, r lock.Renewal) {
	for i := range p.meant(r.Owner, r.Permits) {
		id := permit{r.Owner, i + 1}
		delete(p.out, id)
		w.lease(p, id, r.TTL)
	}
}

// shortened tells those who wait that the end they know of is not true any more.
func (w *work) shortened(e *entry, kind lock.Kind) {
	w.changed(e)
	n := lock.Notice{What: lock.NoticeReleased}
	switch kind {
	case lock.Fair:
		w.freedFair(e)
	case lock.Read, lock.Write:
		w.say(e, onShared, n)
	case lock.Semaphore:
		w.say(e, onPermits, n)
	default:
		w.say(e, onPlain, n)
	}
}
