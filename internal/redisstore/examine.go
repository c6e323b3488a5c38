package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/examine"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
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

// examine looks at the one server that there is. Whether it can be used at all, Probe knows.
func (s *Store) examine(ctx context.Context, node string) []lock.Finding {
	if _, err := s.Probe(ctx); err != nil {
		return []lock.Finding{examine.Away(node, err)}
	}
	return examine.Server{
		Node: node, Client: s.lister, ConnectTime: s.connectTime, OpTime: s.OpTimeout,
		Prefix: s.Prefix, Data: s.data(), InCluster: s.inSlots, BehindSentinel: s.guide != nil, Replicas: s.Shared.Replicas,
	}.Examine(ctx)
}

// Declare implements lock.Declarer.
func (s *Store) Declare(ctx context.Context, text string, ttl time.Duration) (kept string, err error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	key := layout.Declaration(s.Prefix)
	kept, err = s.declared(ctx, key)
	if errors.Is(err, redis.Nil) {
		set := redis.NewCmd(ctx, "set", key, text, "px", ttl.Milliseconds(), "nx")
		if err = s.steady.Do(ctx, set, pipe.ProbeCost); errors.Is(err, redis.Nil) {
			kept, err = s.declared(ctx, key) // another replica was quicker
		} else {
			kept = text
		}
	}
	if err == nil && kept == text {
		err = s.steady.Do(ctx, redis.NewCmd(ctx, "pexpire", key, ttl.Milliseconds()), pipe.ProbeCost)
	}
	if err != nil {
		return "", fmt.Errorf("declare how locks are kept: %w", s.Failed(err))
	}
	return kept, nil
}

// Overlaps implements lock.Declarer.
func (s *Store) Overlaps(ctx context.Context, ttl time.Duration) ([]string, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	cmd, err := s.Scripts.Overlaps.With([]string{layout.Prefixes}, s.Prefix, ttl.Milliseconds()).Run(ctx, s.steady.Do)
	var others []string
	if err == nil {
		others, err = cmd.StringSlice()
	}
	if err != nil {
		return nil, fmt.Errorf("see which prefixes are in use: %w", s.Failed(err))
	}
	return others, nil
}

func (s *Store) declared(ctx context.Context, key string) (string, error) {
	get := redis.NewCmd(ctx, "get", key)
	if err := s.steady.Do(ctx, get, pipe.ProbeCost); err != nil {
		return "", err
	}
	return get.Text()
}
