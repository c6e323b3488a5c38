package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lockd-io/lockd/internal/lock"
)

// peers knows who is subscribed to which topic. Its mutex is never held while a subscriber is called.
type peers struct {
	mu      sync.Mutex // guards the fields below
	last    uint64
	byTopic map[string]map[uint64]func([]byte)
}

// Publish implements lock.Peers.
func (s *Store) Publish(ctx context.Context, topic string, message []byte) (int, error) {
	if ctx.Err() != nil {
		return 0, fmt.Errorf("publish to %q: %w: %w", topic, lock.ErrUnavailable, context.Cause(ctx))
	}
	s.peers.mu.Lock()
	subscribers := slices.Collect(maps.Values(s.peers.byTopic[topic]))
	s.peers.mu.Unlock()
	for _, notify := range subscribers {
		notify(message)
	}
	return len(subscribers), nil
}

// Subscribe implements lock.Peers.
func (s *Store) Subscribe(topic string, notify func(message []byte)) (stop func()) {
	p := &s.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byTopic == nil {
		p.byTopic = make(map[string]map[uint64]func([]byte))
	}
	if p.byTopic[topic] == nil {
		p.byTopic[topic] = make(map[uint64]func([]byte))
	}
	p.last++
	id := p.last
	p.byTopic[topic][id] = notify
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if delete(p.byTopic[topic], id); len(p.byTopic[topic]) == 0 {
			delete(p.byTopic, topic)
		}
	}
}
