package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// Publish implements lock.Peers.
func (s *Store) Publish(ctx context.Context, topic string, message []byte) (int, error) {
	cmd := redis.NewCmd(ctx, "publish", layout.Topic(s.database, s.Prefix, topic), message)
	if err := s.Shared.Do(ctx, pipe.Job{Cmd: cmd}); err != nil {
		return 0, fmt.Errorf("publish to %q: %w", topic, s.Failed(err))
	}
	heard, err := cmd.Int()
	if err != nil {
		return 0, fmt.Errorf("publish to %q: %w", topic, s.Failed(fmt.Errorf("%w: %w", script.ErrBadAnswer, err)))
	}
	return heard, nil
}

// Subscribe implements lock.Peers.
func (s *Store) Subscribe(topic string, notify func(message []byte)) (stop func()) {
	return s.hub.Listen(layout.Topic(s.database, s.Prefix, topic), func(h hub.Heard) {
		if !h.Live && !h.Deaf {
			notify([]byte(h.Message))
		}
	})
}
