package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
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
		s.lookSoon()
		return []lock.Finding{{
			Severity: lock.SeverityError, Check: examine.Reachable, Node: strings.Join(s.cfg.Addrs, ","),
			Detail: "no node says which node has which slots",
			Remedy: "start the cluster, or check the addresses, the network and the password",
		}}
	}
	found := make([][]lock.Finding, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { found[i] = n.Examine(ctx) })
	}
	wg.Wait()
	var all []lock.Finding
	for _, some := range found {
		all = append(all, some...)
	}
	return all
}

// Overlaps implements lock.Declarer, as Declare.
func (s *Store) Overlaps(ctx context.Context, ttl time.Duration) (others []string, err error) {
	at, err := s.owner(layout.Slot(layout.Prefixes))
	if err == nil {
		others, err = at.Overlaps(ctx, ttl)
	}
	if err != nil {
		s.lookSoon()
		return nil, fmt.Errorf("in the cluster: %w", err)
	}
	return others, nil
}

// Declare implements lock.Declarer. There is one text for the whole cluster. While its slot moves it is not to be had.
func (s *Store) Declare(ctx context.Context, text string, ttl time.Duration) (kept string, err error) {
	at, err := s.owner(layout.Slot(layout.Declaration(s.cfg.Node.Prefix)))
	if err == nil {
		kept, err = at.Declare(ctx, text, ttl)
	}
	if err != nil {
		s.lookSoon()
		return "", fmt.Errorf("in the cluster: %w", err)
	}
	return kept, nil
}
