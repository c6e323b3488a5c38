package redistest

import (
	"context"
	"io"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Late stands between a client and Redis, as a pipe.Hook. It holds batches back, as a network may that loses packets:
// who sent one hears that the connection broke, and the batch is executed when Run is called.
type Late struct {
	mu    sync.Mutex // guards the fields below
	which func(args []any) bool
	held  [][]any
}

// Hold has batches held back in which one of the commands is such, from now on. With nil none is.
func (l *Late) Hold(which func(args []any) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.which = which
}

// Run executes what was held back, and says how many commands that were.
func (l *Late) Run(ctx context.Context, c redis.UniversalClient) int {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, args := range held {
		_ = c.Do(ctx, args...).Err() // nobody waits for the answer any more
	}
	return len(held)
}

// Send implements pipe.Hook.
func (l *Late) Send(cmds []*redis.Cmd, write func() error) error {
	if l.take(cmds) {
		return io.ErrUnexpectedEOF
	}
	return write()
}

// Answered implements pipe.Hook.
func (l *Late) Answered([]*redis.Cmd) error { return nil }

// take holds a batch back, or not.
func (l *Late) take(cmds []*redis.Cmd) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.which == nil || !slices.ContainsFunc(cmds, func(cmd *redis.Cmd) bool { return l.which(cmd.Args()) }) {
		return false
	}
	for _, cmd := range cmds {
		l.held = append(l.held, slices.Clone(cmd.Args()))
	}
	return true
}

// Calls says whether a command calls one of some scripts, by their SHA-1.
func Calls(shas ...string) func(args []any) bool {
	return func(args []any) bool {
		if len(args) < 2 {
			return false
		}
		sha, ok := args[1].(*string)
		return ok && slices.Contains(shas, *sha)
	}
}
