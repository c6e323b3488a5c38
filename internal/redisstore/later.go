package redisstore

import (
	"context"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

// AcquireAll implements broker.Store.
func (s *Store) AcquireAll(context.Context, []broker.Claim) ([]broker.Grant, error) {
	return nil, broker.ErrUnsupported
}

// Enlist implements broker.Store.
func (s *Store) Enlist(context.Context, string, []broker.Owner, time.Duration) ([]int, error) {
	return nil, broker.ErrUnsupported
}

// Leave implements broker.Store.
func (s *Store) Leave(context.Context, string, broker.Kind, []broker.Owner) error {
	return broker.ErrUnsupported
}

// Queue implements broker.Store.
func (s *Store) Queue(context.Context, string, int, int) ([]broker.Owner, error) {
	return nil, broker.ErrUnsupported
}
