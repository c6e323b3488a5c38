package cluster

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// loss executes a batch and loses its replies.
type loss struct {
	mu    sync.Mutex // guards the fields below
	which func(args []any) bool
	after int // of so many batches the last one is lost
}

func (l *loss) next(which func(args []any) bool, after int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.which, l.after = which, after
}

func (l *loss) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (l *loss) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (l *loss) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.which == nil || !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return l.which(cmd.Args()) }) {
			return err
		}
		if l.after--; l.after != 0 {
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

// slowness has each batch take so much longer.
type slowness struct{ pause time.Duration }

func (s *slowness) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s *slowness) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (s *slowness) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(s.pause)
		return next(ctx, cmds)
	}
}
