package cluster

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Fresh says whether one of the nodes may have forgotten holds, and when the last one did. Which nodes there are must
// be known.
func (s *Store) Fresh() (since time.Time, fresh bool) {
	nodes := s.all()
	if s.cfg.Node.Vouch && len(nodes) == 0 {
		return time.Now(), true
	}
	for _, n := range nodes {
		if at, is := n.Fresh(); is && (!fresh || at.After(since)) {
			since, fresh = at, true
		}
	}
	return since, fresh
}

// Marked says whether all nodes are marked as new.
func (s *Store) Marked() bool {
	nodes := s.all()
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *node) bool { return !n.Marked() })
}

// Found vouches for all nodes.
func (s *Store) Found(ctx context.Context) error {
	return errors.Join(each(s.all(), func(_ int, n *node) error { return n.Found(ctx) })...)
}
