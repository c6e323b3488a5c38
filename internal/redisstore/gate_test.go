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
)

// gate stands between the pipeline of a Store and Redis. It holds batches back, so that what comes meanwhile goes
// together, and does to a batch what a fault would.
type gate struct {
	mu    sync.Mutex // guards the fields below
	shut  chan struct{}
	held  int // batches that wait at the gate
	fate  storetest.Fate
	alter func(sha string, answer []any) []any // of calls for many
	late  [][]any
	shas  []string // of the scripts that came by
	sizes []int    // of the batches
}

var _ redis.Hook = (*gate)(nil)

func (g *gate) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return g.pass(next)
}

// pass is what happens to a batch.
func (g *gate) pass(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		g.mu.Lock()
		if shut := g.shut; shut != nil {
			g.held++
			g.mu.Unlock()
			<-shut
			return next(ctx, cmds) // of those that occupy the senders
		}
		fate, alter := g.fate, g.alter
		g.fate = storetest.Deliver
		g.sizes = append(g.sizes, len(cmds))
		for _, cmd := range cmds {
			if sha := shaOf(cmd); sha != "" {
				g.shas = append(g.shas, sha)
			}
		}
		if fate == storetest.Delay {
			for _, cmd := range cmds {
				g.late = append(g.late, slices.Clone(cmd.Args()))
			}
		}
		g.mu.Unlock()
		var err error
		if fate == storetest.Deliver || fate == storetest.LoseReply {
			err = next(ctx, cmds)
		}
		if fate != storetest.Deliver {
			err = io.ErrUnexpectedEOF
		}
		for _, cmd := range cmds {
			c, ok := cmd.(*redis.Cmd)
			if !ok {
				continue
			}
			if fate != storetest.Deliver {
				c.SetVal(nil)
				c.SetErr(err)
			} else if list, err := c.Slice(); err == nil && alter != nil {
				c.SetVal(alter(shaOf(cmd), list))
			}
		}
		return err
	}
}

// shaOf is the script that a command calls, if any.
func shaOf(cmd redis.Cmder) string {
	if args := cmd.Args(); len(args) > 1 {
		if text, ok := args[1].(*string); ok {
			return *text
		}
	}
	return ""
}

// together has all that start begins wait at the same time, and go as one batch with a fate.
func (g *gate) together(s *Store, fate storetest.Fate, start func()) error {
	for end := time.Now().Add(10 * time.Second); s.connected() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return s.connected()
		}
	}
	g.close()
	defer g.open(storetest.Deliver) // or the Store could not be closed after an error
	var pings sync.WaitGroup
	for n := 1; n <= pipe.Senders; n++ { // occupy the senders
		pings.Add(1)
		ping := redis.NewCmd(context.Background(), "ping")
		if err := s.Shared.Put(pipe.Job{
			Cmd: ping, Done: func(error) { pings.Done() }, Queued: time.Now(),
			Cost: 1,
		}); err != nil {
			return err
		}
		for end := time.Now().Add(10 * time.Second); g.waiting() < n; time.Sleep(50 * time.Microsecond) {
			if time.Now().After(end) {
				return errors.New("the senders did not come to the gate")
			}
		}
	}
	start()
	g.open(fate)
	pings.Wait()
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
	cfg.Hook, cfg.oneLine = g, true
	return open(t, cfg), g, srv.Client()
}
