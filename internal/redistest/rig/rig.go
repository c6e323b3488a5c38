// Package rig does to locks in a Redis what time would do, or an operator, for the contract suite. Tests call it.
//
// # What it promises
//
// What it does is done when it returns, to the keys that lockd uses for a name, on one server or in a cluster.
//
// # What it does not promise
//
// That a store notices: that is what tests look at.
package rig

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/script"
)

// Hooks are those of the names with a prefix, wherever c finds their keys.
func Hooks(ctx context.Context, c redis.UniversalClient, prefix string) storetest.Hooks {
	run := func(sc *redis.Script, keys []string, args ...any) error {
		err := sc.Run(ctx, c, keys, args...).Err()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	}
	return storetest.Hooks{
		Expire: func(name string) error { return c.Del(ctx, prefix+name).Err() },
		ExpireHold: func(name string, o lock.Owner) error {
			n := prefix + name
			return run(expireHold, []string{n, layout.PermitsOut(n)}, string(o), layout.HoldBase(n))
		},
		ExpirePlace: func(name string, o lock.Owner) error {
			n := prefix + name
			return run(expirePlace, []string{layout.Places(n), layout.Writer(n)}, string(o))
		},
		Lose:   func() error { return Flush(ctx, c) },
		Occupy: func(name string) error { return c.Set(ctx, prefix+name, "text", 0).Err() },
	}
}

// Flush empties the server, or all masters of the cluster.
func Flush(ctx context.Context, c redis.UniversalClient) error {
	if all, ok := c.(*redis.ClusterClient); ok {
		return all.ForEachMaster(ctx, func(ctx context.Context, m *redis.Client) error { return m.FlushAll(ctx).Err() })
	}
	return c.FlushAll(ctx).Err()
}

// What time would do.
var (
	expireHold = redis.NewScript(script.Lua("clock", "fence", "rw", "semaphore") + `
		local owner = ARGV[1]
		for i = 1, 100 do redis.call('DEL', read_key({base = ARGV[2]}, owner, i)) end
		for _, id in ipairs(permit_ids(owner, 1, 100)) do redis.call('ZADD', KEYS[2], 'XX', now_ms(), id) end`)
	expirePlace = redis.NewScript(script.Lua("clock") + `
		redis.call('ZADD', KEYS[1], 'XX', now_ms(), ARGV[1])
		if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end`)
)
