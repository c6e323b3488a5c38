package cluster

import (
	"context"
	"errors"
	"slices"
	"time"
)

// DataLoss says whether one of the nodes may have forgotten holds, and since when no node has. With DetectDataLoss it
// says yes while no node is known.
func (s *Store) DataLoss() (since time.Time, may bool) {
	nodes := s.all()
	if s.cfg.Node.DetectDataLoss && len(nodes) == 0 {
		return time.Now(), true
	}
	for _, n := range nodes {
		if at, is := n.DataLoss(); is && (!may || at.After(since)) {
			since, may = at, true
		}
	}
	return since, may
}

// Marked says whether all nodes are marked as new.
func (s *Store) Marked() bool {
	nodes := s.all()
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *node) bool { return !n.Marked() })
}

// ConfirmNew confirms that all nodes are new.
func (s *Store) ConfirmNew(ctx context.Context) error {
	return errors.Join(each(s.all(), func(_ int, n *node) error { return n.ConfirmNew(ctx) })...)
}
