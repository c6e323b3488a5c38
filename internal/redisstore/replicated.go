package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

// What is granted is told when enough replicas have it, if Config.Replicas says so. If too few have it, it is released at once, and
// refused as if nothing had been done.

// tooFew says whether something was granted of which too few replicas know.
func tooFew(err error) bool { return errors.Is(err, pipe.ErrNotReplicated) }

// kept is what becomes of a grant. It waits while one is released.
func (s *Store) kept(c lock.Claim, g lock.Grant, err error) (lock.Grant, error) {
	if !tooFew(err) {
		return g, err
	}
	return lock.Grant{}, acquireFailed(c.Name, s.giveUp(c, g, err))
}

// tellKept is kept without waiting.
func (s *Store) tellKept(c lock.Claim, g lock.Grant, err error, done func(lock.Grant, error)) {
	if !tooFew(err) {
		done(g, err)
		return
	}
	go func() { done(s.kept(c, g, err)) }()
}

// giveUp releases a grant, and is the error to tell: that nothing is taken, or that it may be.
func (s *Store) giveUp(c lock.Claim, g lock.Grant, few error) error {
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: g.Fence, Permits: c.Permits, Remaining: c.Count - min(c.Count, 1)}
	if c.Kind == lock.Semaphore {
		r.Permits, r.Remaining = max(c.Permits, 1), 0
	}
	_, err := s.release(context.Background(), r) // it is bounded
	return given(err, few)
}

// given is what is told of a grant that was given up with an outcome.
func given(err, few error) error {
	if err != nil && !errors.Is(err, lock.ErrNotHeld) && !errors.Is(err, lock.ErrStale) {
		return fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
	}
	return fmt.Errorf("%w: %w", lock.ErrNotReplicated, few)
}

// keptAll is kept for several names.
func (s *Store) keptAll(cs []lock.Claim, gs []lock.Grant, few error) error {
	var errs []error
	for i, c := range cs {
		if err := s.giveUp(c, gs[i], few); errors.Is(err, lock.ErrOutcomeUnknown) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return given(nil, few)
}

// keptOver is kept for a hand-over. What was handed over in vain is free: its release was asked for all the same.
func (s *Store) keptOver(r lock.Return, res lock.Returned, err error) (lock.Returned, error) {
	if !tooFew(err) {
		return res, err
	}
	freed, back := s.release(context.Background(), lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Next.Owner, Fence: res.HandedOver})
	if err := given(back, err); errors.Is(err, lock.ErrOutcomeUnknown) {
		return lock.Returned{}, releaseFailed(r.Name, err)
	}
	return freed, nil
}

// tellKeptOver is keptOver without waiting.
func (s *Store) tellKeptOver(r lock.Return, res lock.Returned, err error, done func(lock.Returned, error)) {
	if !tooFew(err) {
		done(res, err)
		return
	}
	go func() { done(s.keptOver(r, res, err)) }()
}

// lessen has a grant among many be none, if too few replicas have it.
func (o *outcome) lessen(few error) {
	if o.err == nil && (o.grant.Fence != 0 || o.back.HandedOver != 0) {
		o.err = few
	}
}
