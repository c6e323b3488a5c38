package memstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// verbs are the operations of a kind.
type verbs struct {
	// check says what is in the way of a claim. It changes nothing but places.
	check func(*work, *entry, lock.Claim) error
	// take makes the hold that check allowed, or prolongs it if the claim is a repetition.
	take    func(*work, *entry, lock.Claim) lock.Grant
	release func(*work, *entry, lock.Return) (lock.Returned, error)
	// renew prolongs a hold and says whether it is there, and how long it lasts. With TTL 0 it only looks.
	renew func(*work, *entry, lock.Renewal) (left time.Duration, there bool)
}

var kinds = [...]verbs{
	lock.Exclusive: {(*work).checkExclusive, (*work).takeAlone, (*work).releaseAlone, (*work).renewAlone},
	lock.Fair:      {(*work).checkFair, (*work).takeAlone, (*work).releaseAlone, (*work).renewAlone},
	lock.Read:      {(*work).checkRead, (*work).takeRead, (*work).releaseRead, (*work).renewRead},
	lock.Write:     {(*work).checkWrite, (*work).takeAlone, (*work).releaseAlone, (*work).renewAlone},
	lock.Semaphore: {(*work).checkPermits, (*work).takePermits, (*work).releasePermits, (*work).renewPermits},
}

func (w *work) acquire(e *entry, c lock.Claim) (lock.Grant, error) {
	if err := kinds[c.Kind].check(w, e, c); err != nil {
		return lock.Grant{}, err
	}
	w.changed(e)
	return kinds[c.Kind].take(w, e, c), nil
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
	for _, c := range cs {
		e := w.find(c.Name)
		if e.mismatch(c.Kind) {
			return nil, allFailed(c, lock.ErrKindMismatch)
		}
		es = append(es, e)
	}
	for i, c := range cs {
		err := kinds[c.Kind].check(w, es[i], c)
		if held, ok := errors.AsType[*lock.HeldError](err); ok {
			held.Name = c.Name
		}
		if err != nil {
			return nil, allFailed(c, err)
		}
	}
	for i, c := range cs {
		w.changed(es[i])
		gs = append(gs, kinds[c.Kind].take(w, es[i], c))
	}
	return gs, nil
}

// renew prolongs a hold and returns how long it lasts.
func (w *work) renew(e *entry, r lock.Renewal) (left time.Duration, err error) {
	left, there := kinds[r.Kind].renew(w, e, r)
	if !there {
		return 0, w.goneLocked(e, r)
	}
	w.say(e, 0, lock.Notice{What: lock.NoticeTouched})
	return left, nil
}

// shorten has a hold end r.TTL from now, and tells those who wait, who know of a later end.
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
		for i := range e.permits.meant(r.Owner, r.Permits) {
			id := permit{r.Owner, i + 1}
			delete(e.permits.out, id)
			w.lease(e.permits, id, r.TTL)
		}
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
	return *own, nil
}
