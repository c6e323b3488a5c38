package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Extend implements lock.Store.
func (s *Store) Extend(ctx context.Context, r lock.Renewal) (left time.Duration, err error) {
	if err := begin(ctx, r.Kind); err != nil {
		return 0, renewFailed(r.Name, err)
	}
	return wait(ctx, func(done func(time.Duration, error)) { s.StartExtend(r, done) })
}

func renewFailed(name string, err error) error { return fmt.Errorf("renew %q: %w", name, err) }

// StartExtend implements lock.Store.
func (s *Store) StartExtend(r lock.Renewal, done func(left time.Duration, err error)) {
	if err := begin(context.Background(), r.Kind); err != nil {
		go done(0, renewFailed(r.Name, err))
		return
	}
	if s.unpinned(r) {
		s.run(context.Background(), func(ctx context.Context) {
			if r, err := s.pinned(ctx, r); err != nil {
				done(0, err)
			} else {
				s.StartExtend(r, done)
			}
		})
		return
	}
	sent := r
	sent.TTL = s.drifted(r.TTL)
	b := &ballot[time.Duration]{}
	b.decide = func(last bool) func() {
		t := b.tally()
		err := cmpError(b.gone(), b.preventing(refused...))
		switch left := s.lasting(b.votes, r); {
		case len(left) >= s.quorum:
			lasts := max(left[len(left)-s.quorum], r.TTL)
			return func() { done(lasts, nil) }
		case err == nil && !last:
			return nil
		case err == nil:
			err = noMajority(t)
		}
		return func() { done(0, renewFailed(r.Name, err)) }
	}
	b.open(s)
	for _, m := range s.members {
		m.StartExtend(s.renewalAt(m, sent), func(left time.Duration, err error) { b.answer(m, left, err) })
	}
}

// gone is a *lock.GoneError if so many members have not got the hold that there is no majority that has. It was lost
// with data if it would be there but for the members that lost theirs. mu is held.
func (b *ballot[T]) gone() error {
	forced, data := 0, 0
	for _, v := range b.votes {
		if gone, ok := errors.AsType[*lock.GoneError](v.err); ok {
			if gone.Reason == lock.LostData {
				data++
			} else {
				forced++
			}
		}
	}
	return goneOf(forced, data, b.spare())
}

// goneOf is gone for so many members, of which at most so many may be without the hold.
func goneOf(forced, data, most int) error {
	switch {
	case forced > most:
		return &lock.GoneError{Reason: lock.LostForced}
	case forced+data > most:
		return &lock.GoneError{Reason: lock.LostData}
	}
	return nil
}

// lasting is for how long members have a hold that they prolonged, in order. mu is held.
//
// Who knows the fence was told that it has the hold. Who does not may have asked for it in vain: it may be one that a
// member took which does not vote, and which has forgotten whose it is.
func (s *Store) lasting(votes []vote[time.Duration], r lock.Renewal) []time.Duration {
	left := make([]time.Duration, 0, len(votes))
	for i, v := range votes {
		m := s.members[i]
		if v.cast && v.err == nil && (r.Fence != 0 || !s.quarantined(m)) && !s.inDoubt(m, r) {
			left = append(left, trusted(v.v))
		}
	}
	slices.Sort(left)
	return left
}

// ask has all members do something that one word answers, and says what a majority said.
func (s *Store) ask(ctx context.Context, what, name string, kind lock.Kind,
	call func(context.Context, *member) error,
) error {
	err := begin(ctx, kind)
	if err == nil {
		_, err = wait(ctx, func(done func(struct{}, error)) {
			b := &ballot[struct{}]{}
			b.decide = func(last bool) func() { return b.oneWord(last, func(err error) { done(struct{}{}, err) }) }
			b.open(s)
			s.each(ctx, func(ctx context.Context, m *member) { b.answer(m, struct{}{}, call(ctx, m)) })
		})
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", what, name, err)
	}
	return nil
}

// refused are the errors that a majority can give.
var refused = []error{
	lock.ErrNotHeld, lock.ErrStale, lock.ErrKindMismatch, lock.ErrStoreFull, lock.ErrUnsupported, lock.ErrInvalid,
	lock.ErrSuperseded, lock.ErrToken, lock.ErrSessionGone,
}

// oneWord decides when a majority agrees. mu is held.
func (b *ballot[T]) oneWord(last bool, told func(error)) (then func()) {
	t := b.tally()
	err := cmpError(b.gone(), b.preventing(refused...))
	switch {
	case t.yes >= b.s.quorum:
		return func() { told(nil) }
	case err == nil && !last:
		return nil
	case err == nil:
		err = noMajority(t)
	}
	return func() { told(err) }
}

func cmpError(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// Shorten implements lock.Store. It waits for all members: none of them may do it later, because a member that shortens
// a hold that was prolonged since would end it too early.
func (s *Store) Shorten(ctx context.Context, r lock.Renewal) error {
	err := begin(ctx, r.Kind)
	if err == nil && s.unpinned(r) {
		r, err = s.pinned(ctx, r)
	}
	if err == nil {
		err = s.shorten(ctx, r)
	}
	if err != nil {
		return fmt.Errorf("shorten %q: %w", r.Name, err)
	}
	return nil
}

func (s *Store) shorten(ctx context.Context, r lock.Renewal) error {
	r.TTL = s.drifted(r.TTL)
	b := &ballot[struct{}]{patient: true}
	told := make(chan error, 1)
	b.decide = func(last bool) func() {
		if b.missing > 0 {
			return nil
		}
		return b.oneWord(last, func(err error) { told <- err })
	}
	b.open(s)
	s.each(ctx, func(ctx context.Context, m *member) { b.answer(m, struct{}{}, m.Shorten(ctx, s.renewalAt(m, r))) })
	return <-told
}

// ForceRelease implements lock.Store. The name was held if any member had it: what a minority has, or is said to have
// by those that answer, is freed as well. It waits for all members, as Shorten: one that did it later would take the
// name from somebody else.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (held bool, err error) {
	if err = begin(ctx, kind); err == nil {
		held, err = s.force(ctx, name, kind)
		s.isForced(name)
	}
	if err != nil {
		return false, fmt.Errorf("force release %q: %w", name, err)
	}
	return held, nil
}

func (s *Store) force(ctx context.Context, name string, kind lock.Kind) (held bool, err error) {
	b := &ballot[bool]{patient: true}
	told := make(chan error, 1)
	b.decide = func(last bool) func() {
		if b.missing > 0 {
			return nil
		}
		held = slices.ContainsFunc(b.votes, func(v vote[bool]) bool { return v.err == nil && v.v })
		return b.oneWord(last, func(err error) { told <- err })
	}
	b.open(s)
	s.each(ctx, func(ctx context.Context, m *member) {
		held, err := m.ForceRelease(ctx, name, kind)
		b.answer(m, held, err)
	})
	err = <-told
	return held && err == nil, err
}

// Leave implements lock.Store.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	owners = slices.Clone(owners)
	return s.ask(ctx, "leave", name, kind,
		func(ctx context.Context, m *member) error { return m.Leave(ctx, name, kind, owners) })
}

// Enlist implements lock.Store: there are no fair waiters.
func (s *Store) Enlist(ctx context.Context, _ string, _ []lock.Owner, _ time.Duration) ([]int, error) {
	return nil, begin(ctx, lock.Fair)
}

// Succeed implements lock.Store: there are no fair waiters.
func (s *Store) Succeed(ctx context.Context, _ string, _ []lock.Owner, _ lock.Owner, _ time.Duration) (int, error) {
	return lock.PlaceUnknown, begin(ctx, lock.Fair)
}

// Queue implements lock.Store: nobody waits in order.
func (s *Store) Queue(ctx context.Context, _ string, _, _ int) ([]lock.Owner, error) {
	return nil, begin(ctx, lock.Exclusive)
}

// ListenTurn implements lock.Store: nobody has a turn.
func (s *Store) ListenTurn(string, lock.Owner, func(lock.Notice)) (stop func()) { return func() {} }

// SetLimit implements lock.Store: there are no semaphores.
func (s *Store) SetLimit(ctx context.Context, name string, _ uint32) (previous uint32, err error) {
	return 0, fmt.Errorf("set the limit of %q: %w", name, begin(ctx, lock.Semaphore))
}

// RemoveLimit implements lock.Store: there are no semaphores.
func (s *Store) RemoveLimit(ctx context.Context, name string) (previous uint32, err error) {
	return 0, fmt.Errorf("remove the limit of %q: %w", name, begin(ctx, lock.Semaphore))
}

// AdoptLimit implements lock.Store: there are no semaphores.
func (s *Store) AdoptLimit(ctx context.Context, name string, _ uint32) error {
	return fmt.Errorf("adopt the limit of %q: %w", name, begin(ctx, lock.Semaphore))
}
