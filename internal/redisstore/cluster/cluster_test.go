package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
	"github.com/lockd-io/lockd/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// As in redisstore.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.init.0.func1"))
}

// open opens a Store on a cluster until the test ends.
func open(t testing.TB, c *redistest.Cluster) *Store {
	t.Helper()
	cfg := Config{Addrs: c.Addrs()[:2], Node: redisstore.Config{OpTimeout: 5 * time.Second, HearTimeout: time.Second}}
	s, err := Open(t.Context(), cfg, zaptest.NewLogger(t), metrics(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func metrics(t testing.TB) *redisstore.Metrics {
	m, err := redisstore.NewMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// client is one that finds its way in a cluster by itself.
func client(t testing.TB, c *redistest.Cluster) *redis.ClusterClient {
	cc := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2, DisableIdentity: true})
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// hooks do what time would do, and operators.
func hooks(t testing.TB, c *redis.ClusterClient) storetest.Hooks {
	run := func(sc *redis.Script, keys []string, args ...any) error {
		err := sc.Run(t.Context(), c, keys, args...).Err()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	}
	return storetest.Hooks{
		Expire: func(name string) error { return c.Del(t.Context(), name).Err() },
		ExpireHold: func(name string, o lock.Owner) error {
			return run(expireHold, []string{name, layout.PermitsOut(name)}, string(o), layout.HoldBase(name))
		},
		ExpirePlace: func(name string, o lock.Owner) error {
			return run(expirePlace, []string{layout.Places(name), layout.Writer(name)}, string(o))
		},
		Lose:   func() error { return flush(t, c) },
		Occupy: func(name string) error { return c.Set(t.Context(), name, "text", 0).Err() },
	}
}

func flush(t testing.TB, c *redis.ClusterClient) error {
	return c.ForEachMaster(t.Context(), func(ctx context.Context, m *redis.Client) error { return m.FlushAll(ctx).Err() })
}

var (
	expireHold = redis.NewScript(script.Lua("clock", "fence", "rw", "semaphore") + `
		local owner = ARGV[1]
		for i = 1, 100 do redis.call('DEL', read_key({base = ARGV[2]}, owner, i)) end
		for _, id in ipairs(permit_ids(owner, 1, 100)) do redis.call('ZADD', KEYS[2], 'XX', now_ms(), id) end`)
	expirePlace = redis.NewScript(script.Lua("clock") + `
		redis.call('ZADD', KEYS[1], 'XX', now_ms(), ARGV[1])
		if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end`)
)

func TestContract(t *testing.T) {
	c := redistest.StartCluster(t)
	cc := client(t, c)
	storetest.Run(t, func(t *testing.T) storetest.Rig {
		if err := flush(t, cc); err != nil {
			t.Fatal(err)
		}
		return storetest.Rig{Store: open(t, c), Hooks: hooks(t, cc), Apart: true}
	})
}
