package cluster

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// hook is what happens to batches.
type hook func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error

func (h hook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return h(ctx, cmds, next) }
}

// losing executes all batches, and loses the replies of the second one of a kind.
func losing(which func(args []any) bool) hook {
	var batches atomic.Int32
	return func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		err := next(ctx, cmds)
		if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return which(cmd.Args()) }) || batches.Add(1) != 2 {
			return err
		}
		for _, cmd := range cmds {
			if c, ok := cmd.(*redis.Cmd); ok {
				c.SetVal(nil)
			}
			cmd.SetErr(io.ErrUnexpectedEOF)
		}
		return io.ErrUnexpectedEOF
	}
}

// slower has each batch take so much longer.
func slower(pause time.Duration) hook {
	return func(ctx context.Context, cmds []redis.Cmder, next redis.ProcessPipelineHook) error {
		time.Sleep(pause)
		return next(ctx, cmds)
	}
}
