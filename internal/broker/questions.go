package broker

import (
	"context"
	"errors"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// What a session asks the store without holding or waiting for anything. Each question is one store call.

// Look asks what is known of a name. The answer is Looked or Failed.
func (s *Session) Look(id uint64, name string) {
	s.ask(id, s.b.rules.Name(name), func() {
		info, err := s.b.Lock(s.b.ctx, name)
		s.Answer(id, session.Looked{ID: id, Lock: info}, err)
	})
}

// SetLimit sets how many permits a semaphore has. The answer is LimitSet or Failed. Repeating it is harmless.
func (s *Session) SetLimit(id uint64, req request.SetLimit) {
	s.ask(id, s.b.mayLimit(req), func() {
		previous, err := s.b.setLimit(req)
		s.Answer(id, session.LimitSet{ID: id, Previous: previous}, err)
	})
}

// ask begins a question.
func (s *Session) ask(id uint64, wrong error, question func()) {
	s.begin(id, wrong, func() error { return s.Ask(question) })
}

// SetLimit sets how many permits a semaphore has and returns how many it had, 0 if there was no limit. It is repeated
// if the store does not answer; what it returns may then be the new limit.
func (b *Broker) SetLimit(req request.SetLimit) (previous uint32, err error) {
	if err = b.mayLimit(req); err != nil {
		return 0, err
	}
	return b.setLimit(req)
}

// RemoveLimit forgets a semaphore and returns its limit, 0 if there was none. ErrHeld: permits are out. Repeating it is
// harmless.
func (b *Broker) RemoveLimit(ctx context.Context, name string) (previous uint32, err error) {
	if err := b.rules.Name(name); err != nil {
		return 0, err
	}
	return b.store.RemoveLimit(ctx, name)
}

// AdoptLimit has a number that another program made be a semaphore. Repeating it is harmless.
func (b *Broker) AdoptLimit(ctx context.Context, req request.SetLimit) error {
	if err := b.rules.Limit(req); err != nil {
		return err
	}
	return b.store.AdoptLimit(ctx, req.Name, req.Limit)
}

// mayLimit checks a request, and counts its name.
func (b *Broker) mayLimit(req request.SetLimit) error {
	if err := b.rules.Limit(req); err != nil {
		return err
	}
	return b.tenants.Name(req.Tenant, req.Name)
}

func (b *Broker) setLimit(req request.SetLimit) (previous uint32, err error) {
	err = twice(func() (err error) {
		previous, err = b.store.SetLimit(b.ctx, req.Name, req.Limit)
		return err
	})
	return previous, err
}

// twice makes a call of the store once more if its outcome is unknown. A second call that did not reach the store says
// nothing of the first one.
func twice(call func() error) error { return again(call(), call) }

// again is twice after the first call.
func again(err error, call func() error) error {
	if !errors.Is(err, lock.ErrOutcomeUnknown) {
		return err
	}
	if second := call(); !lock.Retriable(second) {
		return second
	}
	return err
}
