package broker

import (
	"context"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// What a session asks the store without holding or waiting for anything. Each question is one store call.

// Look asks what is known of a name. The answer is Looked or Failed.
func (s *Session) Look(id uint64, name string) {
	s.Ask(id, s.b.rules.Name(name), func() {
		var info session.LockInfo
		err := s.still(session.Identity.MayLook, name)
		if err == nil {
			info, err = s.b.Lock(s.b.ctx, name)
		}
		s.Answer(id, session.Looked{ID: id, Lock: info}, err)
	})
}

// still checks the client's right to a name again when the store is asked, which may be long after the request came.
func (s *Session) still(may func(session.Identity, string) error, name string) error {
	if who := s.Identity(); who != nil {
		return may(who, name)
	}
	return nil
}

// SetLimit sets how many permits a semaphore has. The answer is LimitSet or Failed. Repeating it is harmless.
func (s *Session) SetLimit(id uint64, req request.SetLimit) {
	s.Ask(id, nil, func() {
		var previous uint32
		err := s.still(session.Identity.MayLock, req.Name)
		if err == nil {
			req.By = s.Client()
			previous, err = s.b.SetLimit(req)
		}
		s.Answer(id, session.LimitSet{ID: id, Name: req.Name, Previous: previous}, err)
	})
}

// SetLimit sets how many permits a semaphore has and returns how many it had, 0 if there was no limit. It is repeated
// if the store does not answer; what it returns may then be the new limit.
func (b *Broker) SetLimit(req request.SetLimit) (previous uint32, err error) {
	if err = b.rules.Limit(req); err == nil {
		err = b.tenants.Name(req.Tenant, req.Name)
	}
	if err != nil {
		return 0, err
	}
	err = lock.Twice(func() (err error) {
		previous, err = b.store.SetLimit(b.ctx, req.Name, req.Limit)
		return err
	})
	if err == nil {
		b.changed(req.Name)
	}
	if err == nil && previous != req.Limit {
		b.limited(req)
	}
	return previous, err
}

// RemoveLimit forgets a semaphore and returns its limit, 0 if there was none. ErrHeld: permits are out. Repeating it is
// harmless.
func (b *Broker) RemoveLimit(ctx context.Context, name string, by session.Client) (previous uint32, err error) {
	if err := b.rules.Name(name); err != nil {
		return 0, err
	}
	if previous, err = b.store.RemoveLimit(ctx, name); err == nil && previous > 0 {
		b.limited(request.SetLimit{Name: name, By: by})
	}
	return previous, err
}

// AdoptLimit makes a semaphore of a number that another program made. Repeating it is harmless.
func (b *Broker) AdoptLimit(ctx context.Context, req request.SetLimit) error {
	if err := b.rules.Limit(req); err != nil {
		return err
	}
	err := b.store.AdoptLimit(ctx, req.Name, req.Limit)
	if err == nil {
		b.limited(req)
	}
	return err
}
