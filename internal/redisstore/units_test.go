package redisstore

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/script"
	"github.com/lockd-io/lockd/internal/redistest"
)

func TestEvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	core, logs := observer.New(zapcore.WarnLevel)
	s, err := Open(t.Context(), quick(srv), zap.New(core), nil)
	must(t, err)
	defer s.Close()
	_, err = s.Probe(t.Context())
	must(t, err)
	if got := logs.FilterMessageSnippet("maxmemory-policy").Len(); got != 1 {
		t.Errorf("got %d warnings, want one for each server", got)
	}
}

func TestCostsAreThoseOfWhatIsAsked(t *testing.T) {
	t.Parallel()
	s := open(t, quick(redistest.Start(t)))
	for _, c := range []struct {
		what     string
		call     script.Call
		min, max int
	}{
		{"a reader", s.acquireCall(kindClaim(lock.Read, "n", "o")), 1, 3},
		{"a fair waiter", s.acquireCall(kindClaim(lock.Fair, "n", "o")), 1, 3},
		{"a permit", s.acquireCall(permitsClaim("n", "o", 1, 1)), 1, 3},
		{"1,000 permits", s.acquireCall(permitsClaim("n", "o", 1000, 1000)), 300, 400},
		{
			"1,000 permits released", s.releaseCall(lock.Return{
				Name: "n", Kind: lock.Semaphore, Owner: whole("o"), Permits: 1000,
			}),
			300, 400,
		},
	} {
		if c.call.Cost < c.min || c.call.Cost > c.max {
			t.Errorf("%s costs %d, want %d to %d", c.what, c.call.Cost, c.min, c.max)
		}
	}
}
