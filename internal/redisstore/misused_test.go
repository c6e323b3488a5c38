package redisstore

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/examine"
	"github.com/lockd-io/lockd/internal/redisstore/renew"
	"github.com/lockd-io/lockd/internal/redistest"
)

// A sentinel answers like a server, and keeps nothing.
func TestASentinelIsNoServer(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinel(t, redistest.Start(t).Addr)
	cfg := quick(&redistest.Server{Addr: w.Addr})
	_, err := Open(t.Context(), cfg, zap.NewNop(), nil)
	if !errors.Is(err, renew.ErrUnfit) || !strings.Contains(err.Error(), "redis.sentinel.addrs") {
		t.Errorf("got %v, want it refused with what to do", err)
	}
	s, err := New(cfg, zap.NewNop(), nil)
	must(t, err)
	defer s.Close()
	wantFound(t, s.Examine(t.Context()), examine.Reachable, lock.SeverityError, "sentinel")
}

// A node of a cluster has some names only. It is used all the same, as one node may have all slots.
func TestANodeUsedAsIfItWereAloneIsToldOf(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--cluster-enabled", "yes")
	for inSlots, want := range map[bool]int{false: 1, true: 0} {
		core, logs := observer.New(zapcore.ErrorLevel)
		cfg := quick(srv)
		cfg.InSlots = inSlots
		s, err := New(cfg, zap.New(core), nil)
		must(t, err)
		for range 2 {
			_, _ = s.Probe(t.Context()) // nobody has given it slots
		}
		if got := logs.FilterMessageSnippet("node of a cluster").Len(); got != want {
			t.Errorf("told %d times, want %d: %v", got, want, logs.All())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
