package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

// What is granted is told when enough replicas have it, if Config.Replicas says so. If too few have it, it is released
// at once, and refused as if nothing had been done. What is being released so, perhaps late, is not told either
// (abandoned.go).

// tooFew says whether something was granted of which too few replicas know.
func tooFew(err error) bool { return errors.Is(err, pipe.ErrNotReplicated) }

// inVain says whether something was granted that is not told.
func inVain(err error) bool { return tooFew(err) || errors.Is(err, ErrAbandoned) }

// trusted is the outcome of a claim: ErrAbandoned for a grant that may be released yet.
func (s *Store) trusted(c lock.Claim, g lock.Grant, err error) error {
	if err == nil && s.abandoned.Has(c, g.Fence) {
		return ErrAbandoned
	}
	return err
}

// kept is what becomes of a grant. It waits while one is released.
func (s *Store) kept(c lock.Claim, g lock.Grant, err error) (lock.Grant, error) {
	if err = s.trusted(c, g, err); !inVain(err) {
		return g, err
	}
	return lock.Grant{}, acquireFailed(c.Name, s.giveUp(c, g, err))
}

// tellKept is kept without waiting.
func (s *Store) tellKept(c lock.Claim, g lock.Grant, err error, done func(lock.Grant, error)) {
	if err = s.trusted(c, g, err); !inVain(err) {
		done(g, err)
		return
	}
	go func() { done(s.kept(c, g, err)) }()
}

// giveUp releases a grant, and is the error to tell: that nothing is taken, or that it may be.
func (s *Store) giveUp(c lock.Claim, g lock.Grant, why error) error {
	r := lock.Return{
		Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: g.Fence, Permits: c.Permits,
		Remaining: c.Count - min(c.Count, 1),
	}
	if c.Kind == lock.Semaphore {
		r.Permits, r.Remaining = max(c.Permits, 1), 0
	}
	_, err := s.release(context.Background(), r)                     // it is bounded
	if Unsettled(err) && (r.Remaining == 0 || c.Kind == lock.Read) { // holds of one reader differ in their number alone
		s.abandoned.Add(r, c.TTL)
	}
	return given(err, why)
}

// given is what is told of a grant that was given up with an outcome.
func given(err, why error) error {
	switch {
	case Unsettled(err):
		return fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
	case tooFew(why):
		return fmt.Errorf("%w: %w", lock.ErrNotReplicated, why)
	}
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, why)
}

// trustedAll is trusted for several names.
func (s *Store) trustedAll(cs []lock.Claim, gs []lock.Grant, err error) error {
	for i := range gs {
		err = s.trusted(cs[i], gs[i], err)
	}
	return err
}

// keptAll is kept for several names.
func (s *Store) keptAll(cs []lock.Claim, gs []lock.Grant, why error) error {
	var errs []error
	for i, c := range cs {
		if err := s.giveUp(c, gs[i], why); errors.Is(err, lock.ErrOutcomeUnknown) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return given(nil, why)
}

// trustedOver is trusted for a hand-over.
func (s *Store) trustedOver(r lock.Return, res lock.Returned, err error) error {
	if r.Next == nil || res.HandedOver == 0 {
		return err
	}
	return s.trusted(lock.Claim{Name: r.Name, Kind: r.Kind, Owner: r.Next.Owner}, lock.Grant{Fence: res.HandedOver}, err)
}

// keptOver is kept for a hand-over. What was handed over in vain is free: its release was asked for all the same.
func (s *Store) keptOver(r lock.Return, res lock.Returned, err error) (lock.Returned, error) {
	if err = s.trustedOver(r, res, err); !inVain(err) {
		return res, err
	}
	successor := lock.Return{Name: r.Name, Kind: r.Kind, Owner: r.Next.Owner, Fence: res.HandedOver}
	freed, back := s.release(context.Background(), successor)
	if Unsettled(back) {
		s.abandoned.Add(successor, r.Next.TTL)
		return lock.Returned{}, releaseFailed(r.Name, given(back, err))
	}
	return freed, nil
}

// tellKeptOver is keptOver without waiting.
func (s *Store) tellKeptOver(r lock.Return, res lock.Returned, err error, done func(lock.Returned, error)) {
	if err = s.trustedOver(r, res, err); !inVain(err) {
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
