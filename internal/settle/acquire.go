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

// settle sees to what is left of some claims, and calls then once that is released or has rows.
func (s *Store) settle(n next, cs []lock.Claim, then func()) {
	if n == inVain {
		s.takeBack(cs, then)
		return
	}
	for _, c := range cs {
		if n == unsettled && !c.Owner.Repeats() { // who waits asks again as long as it keeps its place
			s.want(returned(c), c.TTL, c.Place)
		}
	}
	then()
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

// acquisition is one that was started.
type acquisition struct {
	s      *Store
	c      lock.Claim
	off    []*row // that it put off
	again  bool   // the first call's outcome was unknown
	done   func(lock.Grant, error)
	answer func(lock.Grant, error) // its method answered
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	a := s.acquisitions.Get().(*acquisition)
	a.c, a.done, a.off, a.again = c, done, s.putOff(c), false
	s.Store.StartAcquire(c, a.answer)
}

// answered is told what became of a call.
func (a *acquisition) answered(g lock.Grant, err error) {
	cs := [...]lock.Claim{a.c}
	n, err := a.s.judge(cs[:], err, a.again)
	if n == onceMore {
		a.again = true
		a.s.Store.StartAcquire(a.c, a.answer)
		return
	}
	s, off, done := a.s, a.off, a.done
	a.c, a.off, a.done = lock.Claim{}, nil, nil
	s.acquisitions.Put(a)
	s.resume(off, err == nil || !lock.Retriable(err))
	if n == tell {
		done(g, err)
		return
	}
	s.settle(n, cs[:], func() { done(lock.Grant{}, err) })
}

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	return acquire(ctx, s, []lock.Claim{c}, func() (lock.Grant, error) { return s.Store.Acquire(ctx, c) })
}

// AcquireAll implements lock.Store.
func (s *Store) AcquireAll(ctx context.Context, cs []lock.Claim) ([]lock.Grant, error) {
	return acquire(ctx, s, cs, func() ([]lock.Grant, error) { return s.Store.AcquireAll(ctx, cs) })
}

// acquire waits for an acquisition, which ask makes.
func acquire[T any](ctx context.Context, s *Store, cs []lock.Claim, ask func() (T, error)) (T, error) {
	off := s.putOff(cs...)
	got, err := ask()
	n, err := s.judge(cs, err, false)
	if n == onceMore {
		got, err = ask()
		n, err = s.judge(cs, err, true)
	}
	s.resume(off, err == nil || len(cs) == 1 && !lock.Retriable(err))
	if n == tell {
		return got, err
	}
	settled := make(chan struct{})
	s.settle(n, cs, func() { close(settled) })
	select {
	case <-settled:
	case <-ctx.Done(): // what is to be released is, all the same
	}
	return *new(T), err
}
