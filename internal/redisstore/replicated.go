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

// inVain is why a claim was granted and is not told, nil if it is told or was not granted.
func (s *Store) inVain(c lock.Claim, f lock.Fence, err error) error {
	if tooFew(err) {
		return err
	}
	if err == nil && f != 0 && s.abandoned.Has(c, f) {
		return ErrAbandoned
	}
	return nil
}

func (op *operation) inVain(o outcome) error {
	c, f := op.grant(o)
	return op.store.inVain(c, f, o.err)
}

// grant is what an operation grants: its own claim, or that of the successor.
func (op *operation) grant(o outcome) (lock.Claim, lock.Fence) {
	if op.acquires {
		return op.claim, o.grant.Fence
	}
	next := op.back.Next
	if next == nil {
		return lock.Claim{}, 0
	}
	c := lock.Claim{Name: op.back.Name, Kind: op.back.Kind, Owner: next.Owner, TTL: next.TTL}
	return c, o.back.HandedOver
}

// kept is the outcome to tell. It waits while what is not told is released. A name that was handed over in vain is
// free: its release was asked for all the same.
func (op *operation) kept(o outcome) outcome {
	why := op.inVain(o)
	if why == nil {
		return o
	}
	c, f := op.grant(o)
	freed, err := op.store.giveUp(c, f)
	if op.acquires || Unsettled(err) {
		return op.failed(given(err, why))
	}
	return outcome{back: freed}
}

// giveUp releases what a claim was granted.
func (s *Store) giveUp(c lock.Claim, f lock.Fence) (lock.Returned, error) {
	r := lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Fence: f, Permits: c.Permits}
	if c.Kind == lock.Semaphore {
		r.Permits = max(c.Permits, 1)
	}
	freed, err := s.Release(context.Background(), r) // it is bounded
	if Unsettled(err) {
		s.abandoned.Add(r, c.TTL)
	}
	return freed, err
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

// keptAll is what to tell of several names: nil if all of them are granted.
func (s *Store) keptAll(cs []lock.Claim, gs []lock.Grant, err error) error {
	var why error
	for i := 0; i < len(gs) && why == nil; i++ {
		why = s.inVain(cs[i], gs[i].Fence, err)
	}
	if why == nil {
		return err
	}
	var unsure []error
	for i, c := range cs {
		if _, err := s.giveUp(c, gs[i].Fence); Unsettled(err) {
			unsure = append(unsure, given(err, why))
		}
	}
	if len(unsure) > 0 {
		return errors.Join(unsure...)
	}
	return given(nil, why)
}
