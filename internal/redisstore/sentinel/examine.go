package sentinel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
)

// The checks of a sentinel. Programs read these words: they are never renamed.
const (
	checkSentinel = "SENTINEL"
	checkQuorum   = "SENTINEL_QUORUM"
)

// fewest is how many sentinels there should be: one may fail then.
const fewest = 3

// Place is the master's address as the sentinels last told it, before that its name.
func (g *Guide) Place() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.latest.addr == "" {
		return g.Master
	}
	return g.latest.addr
}

// Examine looks at the sentinels, all at the same time.
func (g *Guide) Examine(ctx context.Context) []lock.Finding {
	ctx, cancel := context.WithTimeoutCause(ctx, g.Timeout, errSilent)
	defer cancel()
	found := make([][]lock.Finding, len(g.sentinels))
	var wg sync.WaitGroup
	for i, s := range g.sentinels {
		wg.Go(func() { found[i] = g.examine(ctx, s) })
	}
	wg.Wait()
	all := slices.Concat(found...)
	if n := len(g.sentinels); n < fewest {
		all = append(all, lock.Finding{
			Severity: lock.SeverityWarning, Check: checkQuorum, Node: g.Master,
			Detail: fmt.Sprintf("lockd knows %d sentinels", n),
			Remedy: "run three or more, on machines of their own, and give all in redis.sentinel.addrs",
		})
	}
	return all
}

func (g *Guide) examine(ctx context.Context, s *redis.Client) []lock.Finding {
	addr := s.Options().Addr
	told := redis.NewMapStringStringCmd(ctx, "sentinel", "master", g.Master)
	err := s.Process(ctx, told)
	if err != nil {
		return []lock.Finding{{
			Severity: lock.SeverityWarning, Check: checkSentinel, Node: addr, Detail: err.Error(),
			Remedy: cmp.Or(remedies.For(err), "start it, or see the network"),
		}}
	}
	m := told.Val()
	known := lock.Finding{Severity: lock.SeverityOK, Check: checkSentinel, Node: addr, Detail: "the master is " + m["ip"] +
		":" + m["port"] + ", " + m["flags"]}
	if m["flags"] != "master" {
		known.Severity, known.Remedy = lock.SeverityWarning, "see why this sentinel does not reach the master"
	}
	return []lock.Finding{known, g.quorum(ctx, s, m)}
}

// quorum checks whether enough sentinels are there to replace the master.
func (g *Guide) quorum(ctx context.Context, s *redis.Client, m map[string]string) lock.Finding {
	others, _ := strconv.Atoi(m["num-other-sentinels"])
	f := lock.Finding{
		Severity: lock.SeverityOK, Check: checkQuorum, Node: s.Options().Addr,
		Detail: fmt.Sprintf("quorum %s of %d sentinels", m["quorum"], others+1),
	}
	said, err := s.Do(ctx, "sentinel", "ckquorum", g.Master).Text()
	switch {
	case redis.HasErrorPrefix(err, "NOQUORUM"):
		f.Severity, f.Detail = lock.SeverityError, err.Error()
		f.Remedy = "start the sentinels that are missing: nobody replaces a master that fails"
	case err != nil:
		f.Severity, f.Detail = lock.SeverityInfo, "could not be looked at: "+err.Error()
	case others+1 < fewest:
		f.Severity, f.Detail, f.Remedy = lock.SeverityWarning, f.Detail+": "+said, "run three sentinels or more"
	}
	return f
}
