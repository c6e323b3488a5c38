package memstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// by is what is done for a kind.
func by[F any](kind lock.Kind, alone, read, permits F) F {
	switch kind {
	case lock.Read:
		return read
	case lock.Semaphore:
		return permits
	default:
		return alone
	}
}

// acquire makes one claim.
func (w *work) acquire(c lock.Claim) (lock.Grant, error) {
	e := w.find(c.Name)
	defer w.settle(e)
	if err := w.check(e, c); err != nil {
		return lock.Grant{}, err
	}
	return w.take(e, c), nil
}

// check says what is in the way of a claim. It changes nothing but places.
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
		return w.checkExclusive(e, c)
	}
}

// take does what check allowed: the hold is new, or it is the owner's and the claim a repetition.
func (w *work) take(e *entry, c lock.Claim) lock.Grant {
	w.changed(e)
	return by(c.Kind, w.takeAlone, w.takeRead, w.takePermits)(e, c)
}

// AcquireAll implements lock.Store.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	for _, c := range cs {
		if err := lock.Begin(ctx, c.Kind); err != nil {
			return nil, allFailed(c, err)
		}
	}
	w := s.enter(len(cs))
	defer w.leave()
	return w.acquireAll(cs)
}

func allFailed(c lock.Claim, err error) error {
	return fmt.Errorf("acquire %q with others: %w", c.Name, err)
}

func (w *work) acquireAll(cs []lock.Claim) (gs []lock.Grant, err error) {
	var es []*entry
	defer func() {
		for _, e := range es {
			w.settle(e)
		}
	}()
	for _, c := range cs {
		e := w.find(c.Name)
		if e.mismatch(c.Kind) {
			return nil, allFailed(c, lock.ErrKindMismatch)
		}
		es = append(es, e)
	}
	for i, c := range cs {
		err := w.check(es[i], c)
		if held, ok := errors.AsType[*lock.HeldError](err); ok {
			held.Name = c.Name
		}
		if err != nil {
			return nil, allFailed(c, err)
		}
	}
	for i, c := range cs {
		gs = append(gs, w.take(es[i], c))
	}
	return gs, nil
}

func (w *work) release(r lock.Return) (lock.Returned, error) {
	e := w.peek(r.Name)
	if e.mismatch(r.Kind) {
		return lock.Returned{}, lock.ErrKindMismatch
	}
	return by(r.Kind, w.releaseAlone, w.releaseRead, w.releasePermits)(e, r)
}

// renew prolongs a hold and returns for how long it is there.
func (w *work) renew(e *entry, r lock.Renewal) (left time.Duration, err error) {
	left, there := by(r.Kind, w.renewAlone, w.renewRead, w.renewPermits)(e, r)
	if !there {
		return 0, w.goneLocked(e, r)
	}
	w.changed(e)
	return left, nil
}

// shorten has a hold end so long from now. Those who wait know of an end that is not true any more.
func (w *work) shorten(e *entry, r lock.Renewal) error {
	there := r
	there.TTL = 0
	if _, err := w.renew(e, there); err != nil {
		return err
	}
	switch r.Kind {
	case lock.Read:
		e.readers[r.Owner].expires = w.now.Add(r.TTL)
		if e.owner != "" {
			later(&e.expires, w.now, r.TTL)
		} else {
			w.drain(e)
		}
	case lock.Semaphore:
		w.endPermits(e.permits, r)
	default: // readers beside a writer keep their time
		_, last := e.reads()
		e.expires = laterOf(w.now.Add(r.TTL), last)
	}
	w.changed(e)
	w.freed(e, r.Kind)
	return nil
}

func (w *work) raise(e *entry, c lock.Claim) (f lock.Fence, err error) {
	own := &e.own
	reader := e.readers[c.Owner]
	switch {
	case c.Kind == lock.Semaphore:
		return 0, lock.ErrUnsupported
	case e.mismatch(c.Kind):
		return 0, lock.ErrKindMismatch
	case c.Kind == lock.Read && reader != nil:
		own = &reader.fence
	case c.Kind == lock.Read || !e.alone(c.Kind, c.Owner):
		return 0, lock.ErrNotHeld
	}
	w.changed(e)
	*own, e.fence = max(*own, c.Fence), max(e.fence, c.Fence)
	w.settle(e)
	return *own, nil
}
