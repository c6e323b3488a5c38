package main

import (
	"context"
	"errors"
	"time"

	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

func redsyncGoredis(e env, callers int) (redsyncredis.Pool, func(), error) {
	c := newPool(e, callers)
	return goredis.NewPool(c), func() { _ = c.Close() }, nil
}

// redsyncPipelined gives redsync a pool of ours, as its documentation allows, so that it too can share one pipelined
// connection between all callers. Its own pool for go-redis wants a whole client, which an AutoPipeliner is not.
func redsyncPipelined(e env, _ int) (redsyncredis.Pool, func(), error) {
	c := newPool(e, 1)
	ap, err := c.AutoPipeline()
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return pipelinePool{ap}, func() { _ = ap.Close(); _ = c.Close() }, nil
}

type pipelinePool struct{ ap *redis.AutoPipeliner }

// Get implements redsync's Pool.
func (p pipelinePool) Get(ctx context.Context) (redsyncredis.Conn, error) {
	return pipelineConn{ctx, p.ap}, nil
}

// pipelineConn implements redsync's Conn.
type pipelineConn struct {
	ctx context.Context // redsync's Conn has none in its methods
	ap  *redis.AutoPipeliner
}

func (c pipelineConn) Get(name string) (string, error) {
	v, err := c.ap.Get(c.ctx, name).Result()
	return v, unlessNil(err)
}

func (c pipelineConn) Set(name, value string) (bool, error) {
	v, err := c.ap.Set(c.ctx, name, value, 0).Result()
	return v == "OK", unlessNil(err)
}

func (c pipelineConn) SetNX(name, value string, expiry time.Duration) (bool, error) {
	return c.ap.SetNX(c.ctx, name, value, expiry).Result()
}

func (c pipelineConn) PTTL(name string) (time.Duration, error) {
	return c.ap.PTTL(c.ctx, name).Result()
}

func (c pipelineConn) Eval(script *redsyncredis.Script, keysAndArgs ...any) (any, error) {
	keys := make([]string, script.KeyCount)
	for i := range keys {
		keys[i], _ = keysAndArgs[i].(string) // redsync's names are strings
	}
	args := keysAndArgs[script.KeyCount:]
	v, err := c.ap.EvalSha(c.ctx, script.Hash, keys, args...).Result()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		v, err = c.ap.Eval(c.ctx, script.Src, keys, args...).Result()
	}
	return v, unlessNil(err)
}

func (c pipelineConn) ScriptLoad(script *redsyncredis.Script) error {
	hash, err := c.ap.ScriptLoad(c.ctx, script.Src).Result()
	if err == nil {
		script.Hash = hash
	}
	return err
}

func (c pipelineConn) Close() error { return nil }

func unlessNil(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}
