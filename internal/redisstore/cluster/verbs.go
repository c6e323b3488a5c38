package cluster

import (
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// StartAcquire implements lock.Store.
func (s *Store) StartAcquire(c lock.Claim, done func(lock.Grant, error)) {
	begin(s, c.Name, func(at *redisstore.Store, told func(lock.Grant, error)) { at.StartAcquire(c, told) }, done)
}

// Raise implements lock.Store.
func (s *Store) Raise(ctx context.Context, c lock.Claim) (lock.Fence, error) {
	return ask(ctx, s, c.Name, func(at *redisstore.Store) (lock.Fence, error) { return at.Raise(ctx, c) })
}

// StartRelease implements lock.Store.
func (s *Store) StartRelease(r lock.Return, done func(lock.Returned, error)) {
	begin(s, r.Name, func(at *redisstore.Store, told func(lock.Returned, error)) { at.StartRelease(r, told) }, done)
}

// StartExtend implements lock.Store.
func (s *Store) StartExtend(r lock.Renewal, done func(time.Duration, error)) {
	begin(s, r.Name, func(at *redisstore.Store, told func(time.Duration, error)) { at.StartExtend(r, told) }, done)
}

// Shorten implements lock.Store.
func (s *Store) Shorten(ctx context.Context, r lock.Renewal) error {
	return do(ctx, s, r.Name, func(at *redisstore.Store) error { return at.Shorten(ctx, r) })
}

// ForceRelease implements lock.Store.
func (s *Store) ForceRelease(ctx context.Context, name string, kind lock.Kind) (bool, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) (bool, error) { return at.ForceRelease(ctx, name, kind) })
}

// Enlist implements lock.Store.
func (s *Store) Enlist(ctx context.Context, name string, owners []lock.Owner, place time.Duration) ([]int, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) ([]int, error) { return at.Enlist(ctx, name, owners, place) })
}

// Leave implements lock.Store.
func (s *Store) Leave(ctx context.Context, name string, kind lock.Kind, owners []lock.Owner) error {
	return do(ctx, s, name, func(at *redisstore.Store) error { return at.Leave(ctx, name, kind, owners) })
}

// Succeed implements lock.Store.
func (s *Store) Succeed(ctx context.Context, name string, from []lock.Owner, to lock.Owner,
	place time.Duration,
) (int, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) (int, error) {
		return at.Succeed(ctx, name, from, to, place)
	})
}

// Queue implements lock.Store.
func (s *Store) Queue(ctx context.Context, name string, size int) ([]lock.Owner, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) ([]lock.Owner, error) { return at.Queue(ctx, name, size) })
}

// SetLimit implements lock.Store.
func (s *Store) SetLimit(ctx context.Context, name string, limit uint32) (uint32, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) (uint32, error) { return at.SetLimit(ctx, name, limit) })
}

// RemoveLimit implements lock.Store.
func (s *Store) RemoveLimit(ctx context.Context, name string) (uint32, error) {
	return ask(ctx, s, name, func(at *redisstore.Store) (uint32, error) { return at.RemoveLimit(ctx, name) })
}

// AdoptLimit implements lock.Store.
func (s *Store) AdoptLimit(ctx context.Context, name string, limit uint32) error {
	return do(ctx, s, name, func(at *redisstore.Store) error { return at.AdoptLimit(ctx, name, limit) })
}

// TakeSession implements lock.Store. A session's record is where a lock with its id as a name would be.
func (s *Store) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	return do(ctx, s, r.ID, func(at *redisstore.Store) error { return at.TakeSession(ctx, r, ttl) })
}

// StartKeepSession implements lock.Store.
func (s *Store) StartKeepSession(k lock.SessionKeep, done func(error)) {
	begin(s, k.ID, func(at *redisstore.Store, told func(struct{}, error)) {
		at.StartKeepSession(k, func(err error) { told(struct{}{}, err) })
	}, func(_ struct{}, err error) { done(err) })
}

// EndSession implements lock.Store.
func (s *Store) EndSession(ctx context.Context, id string, epoch uint64) error {
	return do(ctx, s, id, func(at *redisstore.Store) error { return at.EndSession(ctx, id, epoch) })
}

// ForceEndSession implements lock.Store.
func (s *Store) ForceEndSession(ctx context.Context, id string) (was bool, err error) {
	err = do(ctx, s, id, func(at *redisstore.Store) (err error) {
		was, err = at.ForceEndSession(ctx, id)
		return err
	})
	return was && err == nil, err
}
