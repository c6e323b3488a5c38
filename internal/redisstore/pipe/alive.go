package pipe

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/rawconn"
)

// aliveHook looks at a connection before anything is sent on it: what is not sent to a server that hung up is surely
// not done. go-redis looks by itself at what is a syscall.Conn, which one of package rawconn is not.
type aliveHook struct{ conn net.Conn }

// DialHook implements redis.Hook.
func (h aliveHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h aliveHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.look(); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h aliveHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if err := h.look(); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

func (h aliveHook) look() error {
	conn, ok := h.conn.(*rawconn.Conn)
	if !ok {
		return nil
	}
	if err := conn.Alive(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	return nil
}
