package redisstore

import (
	"context"
	"fmt"
	"time"
)

// Probe implements lock.Store. It also looks whether the server may have forgotten holds, if somebody wants to know.
func (s *Store) Probe(ctx context.Context) (string, error) {
	id, err := s.Renewer.Probe(ctx)
	if err != nil || s.voucher == nil {
		return id, err
	}
	if err := s.voucher.Check(ctx, s.Steady.Probe); err != nil {
		return "", fmt.Errorf("probe: %w", s.Failed(err))
	}
	return id, nil
}

// Fresh says whether the server may have forgotten holds, and when it did. Nobody knows without Config.Vouch: then it
// has not.
func (s *Store) Fresh() (since time.Time, fresh bool) {
	if s.voucher == nil {
		return time.Time{}, false
	}
	return s.voucher.Fresh()
}

// Marked says whether the server is marked as new, and nobody vouches for it yet.
func (s *Store) Marked() bool { return s.voucher != nil && s.voucher.Marked() }

// Found vouches for a server that is new.
func (s *Store) Found(ctx context.Context) error {
	if s.voucher == nil {
		return nil
	}
	if err := s.voucher.Found(ctx, s.Steady.Probe); err != nil {
		return fmt.Errorf("vouch for a new server: %w", s.Failed(err))
	}
	return nil
}
