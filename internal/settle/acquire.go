package settle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lockd-io/lockd/internal/lock"
)

// next is what follows from the outcome of an acquisition.
type next int

const (
	tell      next = iota // the outcome, as it is
	onceMore              // the same claim is made again
	unsettled             // nobody knows the outcome
	inVain                // it was granted, in whole or in part, and that is not told
)

// judge says what follows for some claims, and what the error means. With again an earlier call had an unknown outcome:
// if this one is refused, nothing is there of it.
func (s *Store) judge(cs []lock.Claim, err error, again bool) (next, error) {
	unknown := errors.Is(err, lock.ErrOutcomeUnknown)
	vain := errors.Is(err, lock.ErrNotReplicated) || errors.Is(err, lock.ErrInVain)
	switch {
	case err == nil || s.cfg.Member && !vain:
		return tell, err
	case s.cfg.Member:
		return tell, fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
	case unknown && !again:
		return onceMore, err
	case unknown:
		return unsettled, err
	case vain:
		if !cs[0].Owner.Repeats() {
			return inVain, err
		}
	case !again || !lock.Retriable(err):
		return tell, err
	}
	return unsettled, fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, err)
}

// acquire has ask make a call for some claims, behind the rows of their owners. done is called once what is left of it
// is released or has rows.
func acquire[T any](s *Store, cs []lock.Claim, ask func(done func(T, error)), done func(T, error)) {
	off, again := s.putOff(cs), false
	var answered func(T, error)
	answered = func(got T, err error) {
		n, err := s.judge(cs, err, again)
		if n == onceMore {
			again = true
			ask(answered)
			return
		}
		s.resume(off, err == nil || len(cs) == 1 && !lock.Retriable(err))
		if n == inVain {
			s.takeBack(cs, func() { done(got, err) })
			return
		}
		for _, c := range cs {
			if n == unsettled && !c.Owner.Repeats() { // who waits asks again as long as it keeps its place
				s.want(returned(c), c.TTL, c.Place)
			}
		}
		done(got, err)
	}
	ask(answered)
}

// returned gives back what a claim took. Whoever asks has asked for nothing else, so no fence is needed.
func returned(c lock.Claim) lock.Return {
	return lock.Return{Name: c.Name, Kind: c.Kind, Owner: c.Owner, Permits: c.Permits, Tenant: c.Tenant}
}

// takeBack releases what some claims took, and calls then.
func (s *Store) takeBack(cs []lock.Claim, then func()) {
	var left atomic.Int64
	left.Store(int64(len(cs)))
	for _, c := range cs {
		s.StartRelease(returned(c), func(lock.Returned, error) {
			if left.Add(-1) == 0 {
				then()
			}
		})
	}
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	acquire(s, []lock.Claim{c}, func(told func(lock.Grant, error)) { s.Store.StartAcquire(c, told) }, done)
}

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	return lock.Started(ctx, s.StartAcquire, c)
}

// AcquireAll implements lock.Store.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	return lock.Started(ctx, func(cs []lock.Claim, done func([]lock.Grant, error)) {
		acquire(s, cs, func(told func([]lock.Grant, error)) { told(s.Store.AcquireAll(ctx, cs)) }, done)
	}, cs)
}
