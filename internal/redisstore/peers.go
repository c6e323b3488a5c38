package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// Publish implements lock.Peers.
func (s *Store) Publish(ctx context.Context, topic string, message []byte) (int, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	cmd := redis.NewCmd(ctx, "publish", s.topicChannel(topic), message)
	if err := s.shared.do(ctx, cmd, 1); err != nil {
		return 0, fmt.Errorf("publish to %q: %w", topic, s.failed(err))
	}
	heard, err := cmd.Int()
	if err != nil {
		return 0, fmt.Errorf("publish to %q: %w", topic, s.failed(fmt.Errorf("%w: %w", errBadAnswer, err)))
	}
	return heard, nil
}

// Subscribe implements lock.Peers.
func (s *Store) Subscribe(topic string, notify func(message []byte)) (stop func()) {
	return s.hub.listen(s.topicChannel(topic), func(h heard) {
		if !h.live && !h.deaf {
			notify([]byte(h.message))
		}
	})
}

// topicChannel is where a topic is published. Redis has one space of channels for all its databases, so the database and the
// prefix are in the name: replicas that share neither are not peers.
func (s *Store) topicChannel(topic string) string {
	return peersPrefix + strconv.Itoa(s.database) + ":" + s.prefix + ":" + topic
}
