package redisstore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/renew"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// question is one call of a script for a verb of lock.Store.
type question struct {
	what, name string // for the error
	kind       lock.Kind
	call       script.Call
}

// answer asks a question, and has read read the script's answer. It checks Answer.Err itself.
func answer[T any](ctx context.Context, s *Store, q question, read func(a *script.Answer) (T, error)) (got T, _ error) {
	err := lock.Begin(ctx, q.kind)
	var a script.Answer
	if err == nil {
		a, err = s.Ask(ctx, q.call)
	}
	if err == nil {
		got, err = read(&a)
	}
	if err = cmp.Or(a.Err, err); err != nil {
		var none T
		return none, fmt.Errorf("%s %q: %w", q.what, q.name, err)
	}
	return got, nil
}

// Raise implements lock.Store.
func (s *Store) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	n := s.Prefix + c.Name
	call := s.Scripts.Raise.With(layout.Keys(c.Kind, n), c.Kind.String(), string(c.Owner), uint64(c.Fence), s.FenceMillis,
		layout.HoldBase(n))
	q := question{"raise the fence of", c.Name, c.Kind, call.As(c.Owner.For(c.Tenant))}
	if c.Kind == lock.Semaphore {
		q.kind = 0 // which is not supported either
	}
	return answer(ctx, s, q, func(a *script.Answer) (lock.Fence, error) {
		if a.Code() != script.Done {
			return 0, a.Refusal()
		}
		return a.Last(1), nil
	})
}

// Tenants of calls that do not say for whom they are made.
const (
	forLimits = ":limits"
	forViews  = ":views"
)

// SetLimit implements lock.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	n := s.Prefix + name
	call := s.Scripts.LimitPermits.With(layout.Keys(lock.Semaphore, n), limit, s.FenceMillis, layout.PermitChannel(n))
	return s.askLimit(ctx, "set the limit of", name, call)
}

// RemoveLimit implements lock.Store.
func (s *Store) RemoveLimit(ctx context.Context, name string) (uint32, error) {
	call := s.Scripts.RemovePermits.With(layout.Keys(lock.Semaphore, s.Prefix+name))
	return s.askLimit(ctx, "remove the limit of", name, call)
}

// AdoptLimit implements lock.Store.
func (s *Store) AdoptLimit(ctx context.Context, name string, limit uint32) error {
	call := s.Scripts.AdoptPermits.With(layout.Keys(lock.Semaphore, s.Prefix+name), limit, s.FenceMillis)
	_, err := s.askLimit(ctx, "adopt the limit of", name, call)
	return err
}

func (s *Store) askLimit(ctx context.Context, what, name string, call script.Call) (uint32, error) {
	q := question{what, name, lock.Semaphore, call.As(forLimits)}
	return answer(ctx, s, q, func(a *script.Answer) (uint32, error) {
		if a.Code() != script.Done {
			return 0, a.Denial(1, "")
		}
		return a.Number(1), nil
	})
}

// ForceRelease implements lock.Store.
//
// The message on the control channel carries the database and the whole key: replicas with another prefix or another
// database hear it too, because all databases of a Redis share its channels. Each takes only what is its own.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (held bool, err error) {
	if err = lock.Begin(ctx, kind); err == nil {
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
	cmd, err := s.forceCall(s.Prefix+name, kind, before).Run(ctx, s.Shared)
	code := int64(0)
	if err == nil { // else the answer may just be coming
		code, err = cmd.Int64()
	}
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
