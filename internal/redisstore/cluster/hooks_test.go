package cluster

import (
	"io"
	"slices"
	"sync"
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

// dropping sends no batch of some kinds: the connection breaks before it.
type dropping struct {
	mu    sync.Mutex // guards the field below
	which func(args []any) bool
}

// all has batches dropped in which one of the commands is such, from now on. With nil none is.
func (d *dropping) all(which func(args []any) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.which = which
}

func (d *dropping) Send(cmds []*redis.Cmd, write func() error) error {
	d.mu.Lock()
	which := d.which
	d.mu.Unlock()
	if which != nil && slices.ContainsFunc(cmds, func(cmd *redis.Cmd) bool { return which(cmd.Args()) }) {
		return io.ErrUnexpectedEOF
	}
	return write()
}

func (d *dropping) Answered([]*redis.Cmd) error { return nil }
