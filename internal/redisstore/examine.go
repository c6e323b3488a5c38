package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/examine"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

var (
	_ lock.Examiner = (*Store)(nil)
	_ lock.Declarer = (*Store)(nil)
)

// Examine implements lock.Examiner.
func (s *Store) Examine(ctx context.Context) []lock.Finding {
	if s.guide == nil {
		return s.examine(ctx, s.addr)
	}
	told := make(chan []lock.Finding, 1)
	go func() { told <- s.guide.Examine(ctx) }() // Close ends it with its connections
	return append(s.examine(ctx, s.guide.Place()), <-told...)
}

// examine looks at the one server. Probe tells first whether it can be used at all.
func (s *Store) examine(ctx context.Context, node string) []lock.Finding {
	if _, err := s.Probe(ctx); err != nil {
		return []lock.Finding{examine.Away(node, err)}
	}
	return examine.Server{
		Node: node, Client: s.lister, ConnectTime: s.connectTime, OpTime: s.OpTimeout,
		Prefix: s.Prefix, Data: s.DataKey(), InCluster: s.InSlots, BehindSentinel: s.guide != nil,
		Replicas: s.Shared.Replicas,
	}.Examine(ctx)
}

// Declare implements lock.Declarer.
func (s *Store) Declare(ctx context.Context, text string, ttl time.Duration) (kept string, err error) {
	key := layout.Declaration(s.Prefix)
	cmd, err := s.Scripts.Declare.With([]string{key}, text, ttl.Milliseconds()).Run(ctx, s.Steady)
	if err == nil {
		kept, err = cmd.Text()
	}
	if err != nil {
		return "", fmt.Errorf("declare how locks are kept: %w", s.Failed(err))
	}
	return kept, nil
}

// Overlaps implements lock.Declarer.
func (s *Store) Overlaps(ctx context.Context, ttl time.Duration) ([]string, error) {
	cmd, err := s.Scripts.Overlaps.With([]string{layout.Prefixes}, s.Prefix, ttl.Milliseconds()).Run(ctx, s.Steady)
	var others []string
	if err == nil {
		others, err = cmd.StringSlice()
	}
	if err != nil {
		return nil, fmt.Errorf("see which prefixes are in use: %w", s.Failed(err))
	}
	return others, nil
}
