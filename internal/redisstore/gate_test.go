package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// gate stands between the pipeline of a Store and Redis. It holds batches back, so that what comes meanwhile goes
// together, and does to a batch what a fault would.
type gate struct {
	mu    sync.Mutex // guards the fields below
	shut  chan struct{}
	held  int // batches that wait at the gate
	fate  storetest.Fate
	loses *redis.Cmd                           // the first one of the batch whose replies are lost
	alter func(sha string, answer []any) []any // of calls for many
	late  [][]any
	shas  []string // of the scripts that came by
	sizes []int    // of the batches
}

var _ pipe.Hook = (*gate)(nil)

// Send is what happens to a batch.
func (g *gate) Send(cmds []*redis.Cmd, write func() error) error {
	g.mu.Lock()
	if shut := g.shut; shut != nil {
		g.held++
		g.mu.Unlock()
		<-shut
		return write() // of the one that keeps the others from being sent
	}
	defer g.mu.Unlock()
	fate := g.fate
	g.fate = storetest.Deliver
	g.sizes = append(g.sizes, len(cmds))
	for _, cmd := range cmds {
		if sha := shaOf(cmd); sha != "" {
			g.shas = append(g.shas, sha)
		}
		if fate == storetest.Delay {
			g.late = append(g.late, slices.Clone(cmd.Args()))
		}
	}
	switch fate {
	case storetest.Deliver:
		return write()
	case storetest.LoseReply:
		g.loses = cmds[0]
		return write()
	default:
		return io.ErrUnexpectedEOF
	}
}

// Answered is what happens to the answers of a batch.
func (g *gate) Answered(cmds []*redis.Cmd) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loses == cmds[0] {
		return io.ErrUnexpectedEOF
	}
	for _, cmd := range cmds {
		if list, err := cmd.Slice(); err == nil && g.alter != nil {
			cmd.SetVal(g.alter(shaOf(cmd), list))
		}
	}
	return nil
}

// shaOf is the script that a command calls, if any.
func shaOf(cmd *redis.Cmd) string {
	if args := cmd.Args(); len(args) > 1 {
		if text, ok := args[1].(*string); ok {
			return *text
		}
	}
	return ""
}

// together has all that start begins wait at the same time, and go as one batch with a fate.
func (g *gate) together(s *Store, fate storetest.Fate, start func()) error {
	for end := time.Now().Add(harness.Patience); s.connected() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return s.connected()
		}
	}
	g.close()
	defer g.open(storetest.Deliver) // or the Store could not be closed after an error

	pinged, ping := make(chan struct{}), redis.NewCmd(context.Background(), "ping") // which the others wait for
	job := pipe.Job{Cmd: ping, Done: func(error) { close(pinged) }, Queued: time.Now(), Cost: 1}
	if err := s.Shared.Put(job); err != nil {
		return err
	}
	for end := time.Now().Add(harness.Patience); g.waiting() == 0; time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			return errors.New("nothing came to the gate")
		}
	}
	start()
	g.open(fate)
	<-pinged
	return nil
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.held = make(chan struct{}), 0
}

// open lets through what waits. The next batch has a fate.
func (g *gate) open(fate storetest.Fate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut, g.fate = nil, fate
	}
}

func (g *gate) waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.held
}

// seen returns the scripts that came by since the last call.
func (g *gate) seen() (shas []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	shas, g.shas = g.shas, nil
	return shas
}

// runLate executes what was delayed.
func (g *gate) runLate(ctx context.Context, c *redis.Client) error {
	g.mu.Lock()
	late := g.late
	g.late = nil
	g.mu.Unlock()
	for _, args := range late {
		if err := c.Do(ctx, args...).Err(); err != nil && !errors.As(err, new(redis.Error)) {
			return fmt.Errorf("executed late: %w", err)
		}
	}
	return nil
}

// gated is a Store behind a gate, on a server of its own. What waits together goes in its order, whosever it is.
func gated(t testing.TB) (*Store, *gate, *redis.Client) {
	srv := redistest.Start(t)
	g := new(gate)
	cfg := quick(srv)
	cfg.Hook, cfg.oneTenant = g, true
	return open(t, cfg), g, srv.Client()
}
