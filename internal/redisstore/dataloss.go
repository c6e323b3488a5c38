package redisstore

import (
	"context"
	"fmt"
	"time"
)

// Probe implements lock.Store. With Config.DetectDataLoss it also checks whether the server may have forgotten holds.
func (s *Store) Probe(ctx context.Context) (string, error) {
	id, err := s.Renewer.Probe(ctx)
	if err != nil || s.dataLoss == nil {
		return id, err
	}
	if err := s.dataLoss.Check(ctx, s.Steady.Probe); err != nil {
		return "", fmt.Errorf("probe: %w", s.Failed(err))
	}
	return id, nil
}

// DataLoss says whether the server may have forgotten holds, and since when. Without Config.DetectDataLoss it says no.
func (s *Store) DataLoss() (since time.Time, may bool) {
	if s.dataLoss == nil {
		return time.Time{}, false
	}
	return s.dataLoss.DataLoss()
}

// Marked says whether the server is marked as new and this is not confirmed yet.
func (s *Store) Marked() bool { return s.dataLoss != nil && s.dataLoss.Marked() }

// ConfirmNew confirms that a server that is marked as new has lost nothing.
func (s *Store) ConfirmNew(ctx context.Context) error {
	if s.dataLoss == nil {
		return nil
	}
	if err := s.dataLoss.ConfirmNew(ctx, s.Steady.Probe); err != nil {
		return fmt.Errorf("confirm that the server is new: %w", s.Failed(err))
	}
	return nil
}
