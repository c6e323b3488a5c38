package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/examine"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

var (
	_ lock.Examiner = (*Store)(nil)
	_ lock.Declarer = (*Store)(nil)
)

// Examine implements lock.Examiner: it looks at all masters at the same time.
func (s *Store) Examine(ctx context.Context) []lock.Finding {
	nodes := s.all()
	if len(nodes) == 0 {
		s.refreshSoon()
		return []lock.Finding{{
			Severity: lock.SeverityError, Check: examine.Reachable, Node: strings.Join(s.cfg.Addrs, ","),
			Detail: "no node says which node has which slots",
			Remedy: "start the cluster, or check the addresses, the network and the password",
		}}
	}
	return slices.Concat(each(nodes, func(_ int, n *node) []lock.Finding { return n.Examine(ctx) })...)
}

// Overlaps implements lock.Declarer. There is one set of prefixes for the whole cluster.
func (s *Store) Overlaps(ctx context.Context, ttl time.Duration) (others []string, err error) {
	return askSlot(ctx, s, layout.Slot(layout.Prefixes), func(at *redisstore.Store) ([]string, error) {
		return at.Overlaps(ctx, ttl)
	})
}

// Declare implements lock.Declarer. There is one text for the whole cluster.
func (s *Store) Declare(ctx context.Context, text string, ttl time.Duration) (kept string, err error) {
	return askSlot(ctx, s, layout.Slot(layout.Declaration(s.cfg.Node.Prefix)), func(at *redisstore.Store) (string, error) {
		return at.Declare(ctx, text, ttl)
	})
}
