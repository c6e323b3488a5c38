package settle

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lockd-io/lockd/internal/lock"
)

// consequence is what follows from the outcome of an acquisition.
type consequence int

const (
	tell      consequence = iota // the outcome, as it is
	onceMore                     // the same claim is made again
	unsettled                    // nobody knows the outcome
	inVain                       // it was granted, in whole or in part, and that is not told
)

// consequenceOf says what follows for some claims, and what the error means. With again an earlier call had an unknown
// outcome: if this one is surely refused, the earlier one left nothing.
func (s *Store) consequenceOf(cs []lock.Claim, err error, again bool) (consequence, error) {
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

// acquired is told the outcome of an acquisition that ask made, behind the pending releases that it put off. done is
// called once what is left of it is released, or its release is pending.
func acquired[T any](s *Store, cs []lock.Claim, off []*pendingRelease, again bool,
	ask func(told func(T, error)), done func(T, error),
) (told func(T, error)) {
	return func(got T, err error) {
		n, err := s.consequenceOf(cs, err, again)
		if n == onceMore {
			ask(acquired(s, cs, off, true, ask, done))
			return
		}
		s.resume(off, err == nil || len(cs) == 1 && !lock.Retriable(err))
		if n == inVain {
			s.takeBack(cs, func() { done(got, err) })
			return
		}
		for _, c := range cs {
			if n == unsettled && !c.Owner.Repeats() { // not before its place has ended: it may ask again
				s.want(c.Return(), c.TTL, c.Place)
			}
		}
		done(got, err)
	}
}

// takeBack releases what some claims took, and calls then. Whoever asks has asked for nothing else, so no fence is
// needed.
func (s *Store) takeBack(cs []lock.Claim, then func()) {
	var left atomic.Int64
	left.Store(int64(len(cs)))
	for _, c := range cs {
		s.StartRelease(c.Return(), func(lock.Returned, error) {
			if left.Add(-1) == 0 {
				then()
			}
		})
	}
}

// StartAcquire implements lock.Store. Without trouble it costs one allocation.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	off := s.putOff([]lock.Claim{c})
	s.Store.StartAcquire(c, func(g lock.Grant, err error) {
		if err == nil {
			s.resume(off, true)
			done(g, nil)
			return
		}
		ask := func(told func(lock.Grant, error)) { s.Store.StartAcquire(c, told) }
		acquired(s, []lock.Claim{c}, off, false, ask, done)(g, err)
	})
}

// AcquireAll implements lock.Store.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	ask := func(told func([]lock.Grant, error)) { told(s.Store.AcquireAll(ctx, cs)) }
	return lock.Await(ctx, func(cs []lock.Claim, done func([]lock.Grant, error)) {
		ask(acquired(s, cs, s.putOff(cs), false, ask, done))
	}, cs)
}
