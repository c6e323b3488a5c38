package cluster

import (
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// losing executes all batches, and loses the replies of the second one of a kind.
type losing struct {
	which   func(args []any) bool
	batches atomic.Int32
}

func (l *losing) Send(_ []*redis.Cmd, write func() error) error { return write() }

func (l *losing) Answered(cmds []*redis.Cmd) error {
	is := func(cmd *redis.Cmd) bool { return l.which(cmd.Args()) }
	if slices.ContainsFunc(cmds, is) && l.batches.Add(1) == 2 {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// slower has each batch take so much longer.
type slower time.Duration

func (s slower) Send(_ []*redis.Cmd, write func() error) error {
	time.Sleep(time.Duration(s))
	return write()
}

func (s slower) Answered([]*redis.Cmd) error { return nil }
