package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/renew"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// Acquire implements lock.Store.
func (s *Store) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	g, err := s.acquire(ctx, c)
	return s.kept(c, g, err)
}

func (s *Store) acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	if err := script.Begin(ctx, c.Kind); err != nil {
		return lock.Grant{}, acquireFailed(c.Name, err)
	}
	if !singleClaim(&c) {
		a, err := s.Ask(ctx, s.acquireCall(c).As(c.Owner))
		return granted(c.Name, a, err)
	}
	told := make(chan outcome, 1)
	o := s.acquisition(&c, func(g lock.Grant, err error) { told <- outcome{grant: g, err: err} }).wait(ctx, told)
	return o.grant, o.err
}

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	if err := script.Begin(context.Background(), c.Kind); err != nil {
		go done(lock.Grant{}, acquireFailed(c.Name, err))
		return
	}
	if s.Shared.Replicas > 0 {
		told := done
		done = func(g lock.Grant, err error) { s.tellKept(c, g, err, told) }
	}
	if singleClaim(&c) {
		s.acquisition(&c, done).start()
		return
	}
	s.startAcquire(c, done)
}

// startAcquire is StartAcquire for what is no single.
func (s *Store) startAcquire(c lock.Claim, done func(lock.Grant, error)) {
	s.Start(s.acquireCall(c).As(c.Owner), func(a script.Answer, err error) { done(granted(c.Name, a, err)) })
}

func acquireFailed(name string, err error) error { return fmt.Errorf("acquire %q: %w", name, err) }

// granted reads what a script that acquires answered.
func granted(name string, a script.Answer, err error) (lock.Grant, error) {
	if err != nil {
		return lock.Grant{}, acquireFailed(name, err)
	}
	if a.Code() != script.Done {
		return lock.Grant{}, acquireFailed(name, a.Denial(1, ""))
	}
	g := lock.Grant{Fence: a.Fence(1), TTL: script.TTL(a.Int(2))}
	if a.Err != nil {
		return lock.Grant{}, acquireFailed(name, a.Err)
	}
	return g, a.Few
}

// Raise implements lock.Store.
func (s *Store) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	err := script.Begin(ctx, c.Kind)
	if err == nil && c.Kind == lock.Semaphore {
		err = lock.ErrUnsupported
	}
	var a script.Answer
	if err == nil {
		a, err = s.Ask(ctx, s.raiseCall(c).As(c.Owner))
	}
	if err == nil && a.Code() != script.Done {
		err = a.Refusal()
	}
	if err = cmp.Or(err, a.Err); err != nil {
		return 0, fmt.Errorf("raise the fence of %q: %w", c.Name, err)
	}
	fence, _ := strconv.ParseUint(a.Text(1), 10, 64) // it is 0 if Redis has lost it
	return lock.Fence(fence), nil
}

// Release implements lock.Store.
func (s *Store) Release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	res, err := s.release(ctx, r)
	return s.keptOver(r, res, err)
}

func (s *Store) release(ctx context.Context, r lock.Return) (lock.Returned, error) {
	if err := script.Begin(ctx, r.Kind); err != nil {
		return lock.Returned{}, releaseFailed(r.Name, err)
	}
	if !singleReturn(&r) {
		a, err := s.Ask(ctx, s.releaseCall(r).As(r.Owner))
		return returned(r.Name, r.Kind, a, err)
	}
	told := make(chan outcome, 1)
	o := s.restitution(&r, func(res lock.Returned, err error) { told <- outcome{back: res, err: err} }).wait(ctx, told)
	return o.back, o.err
}

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	if err := script.Begin(context.Background(), r.Kind); err != nil {
		go done(lock.Returned{}, releaseFailed(r.Name, err))
		return
	}
	if s.Shared.Replicas > 0 && r.Next != nil {
		told := done
		done = func(res lock.Returned, err error) { s.tellKeptOver(r, res, err, told) }
	}
	if singleReturn(&r) {
		s.restitution(&r, done).start()
		return
	}
	s.startRelease(r, done)
}

// startRelease is StartRelease for what is no single.
func (s *Store) startRelease(r lock.Return, done func(lock.Returned, error)) {
	s.Start(s.releaseCall(r).As(r.Owner), func(a script.Answer, err error) { done(returned(r.Name, r.Kind, a, err)) })
}

func releaseFailed(name string, err error) error { return fmt.Errorf("release %q: %w", name, err) }

// returned reads what a script that releases answered.
func returned(name string, kind lock.Kind, a script.Answer, err error) (res lock.Returned, _ error) {
	if err != nil {
		return lock.Returned{}, releaseFailed(name, err)
	}
	switch a.Code() {
	case script.Done:
		res.Listeners = int(a.Int(1))
		if kind == lock.Fair {
			res.Turn = lock.Owner(a.Text(2))
		}
		if kind == lock.Semaphore {
			res.Left = a.Number(2)
		}
		err = a.Err
	case script.HandOver:
		res.HandedOver = a.Fence(1)
		if err = a.Err; err == nil && a.Few != nil {
			return res, a.Few
		}
	default:
		err = a.Refusal()
	}
	if err != nil {
		return lock.Returned{}, releaseFailed(name, err)
	}
	return res, nil
}

// Tenants of what is asked for by many, and is not told for whom.
const (
	forLimits = ":limits"
	forViews  = ":views"
)

// SetLimit implements lock.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	err := script.Begin(ctx, lock.Semaphore)
	if err == nil {
		n := s.Prefix + name
		var a script.Answer
		if a, err = s.Ask(pipe.As(ctx, forLimits),
			s.Scripts.LimitPermits.With(layout.PermitKeys(n), limit, s.FenceMillis, layout.PermitChannel(n))); err == nil {
			previous := a.Number(1)
			if err = a.Err; err == nil {
				return previous, nil
			}
		}
	}
	return 0, fmt.Errorf("set the limit of %q: %w", name, err)
}

// RemoveLimit implements lock.Store.
func (s *Store) RemoveLimit(ctx context.Context, name string) (uint32, error) {
	err := script.Begin(ctx, lock.Semaphore)
	if err == nil {
		var a script.Answer
		a, err = s.Ask(pipe.As(ctx, forLimits), s.Scripts.RemovePermits.With(layout.PermitKeys(s.Prefix+name)))
		if err == nil && a.Code() == script.Done {
			previous := a.Number(1)
			if err = a.Err; err == nil {
				return previous, nil
			}
		} else if err == nil {
			err = a.Denial(1, "")
		}
	}
	return 0, fmt.Errorf("remove the limit of %q: %w", name, err)
}

// AdoptLimit implements lock.Store.
func (s *Store) AdoptLimit(ctx context.Context, name string, limit uint32) error {
	err := script.Begin(ctx, lock.Semaphore)
	if err == nil {
		var a script.Answer
		a, err = s.Ask(pipe.As(ctx, forLimits),
			s.Scripts.AdoptPermits.With(layout.PermitKeys(s.Prefix+name), limit, s.FenceMillis))
		if err == nil && a.Code() != script.Done {
			err = a.Denial(1, "")
		}
	}
	if err != nil {
		return fmt.Errorf("adopt the limit of %q: %w", name, err)
	}
	return nil
}

// ForceRelease implements lock.Store.
//
// The message on the control channel carries the database and the whole key: replicas with another prefix or another
// database hear it too, as Redis has one space of channels, and take only what is theirs.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (held bool, err error) {
	if err = script.Begin(ctx, kind); err == nil {
		err = s.NowOrNever(ctx, func(ctx context.Context, before int64) (err error) {
			held, err = s.forceRelease(ctx, name, kind, before)
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("force release %q: %w", name, err)
	}
	return held, nil
}

func (s *Store) forceRelease(ctx context.Context, name string, kind lock.Kind, before int64) (bool, error) {
	cmd, err := s.forceCall(s.Prefix+name, kind, before).Run(ctx, s.Shared.Do)
	if err != nil {
		return false, s.Failed(err)
	}
	code, err := cmd.Int64()
	switch {
	case err != nil:
		return false, s.Failed(err)
	case code == script.Mismatch:
		return false, lock.ErrKindMismatch
	case code == renew.Late:
		return false, lock.ErrUnavailable
	}
	return code == 1, nil
}
