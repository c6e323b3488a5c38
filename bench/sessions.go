package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// perConnection is how many sessions share a connection. The SDK gives each a connection of its own; these are streams
// of the stubs, as behind a proxy.
const perConnection = 500

// crowd is many sessions with a lease each.
type crowd struct {
	conns   []*grpc.ClientConn
	streams [][]lockdv1.SessionService_SessionClient // by connection
	over    atomic.Bool
	ended   atomic.Int64 // streams that ended, and leases that were lost, before it was over
	wg      sync.WaitGroup
}

// scaleSessions opens sessions, holds them, and prints what that costs.
func scaleSessions(ctx context.Context, e env, p scalePlan) error {
	idle, err := e.read()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var c crowd
	defer func() { c.over.Store(true); stop(); c.close() }()
	if err := c.open(ctx, e, p.sessions); err != nil {
		return err
	}
	opened, err := e.read()
	if err != nil {
		return err
	}
	h, err := holdFor(ctx, e, p.hold)
	if err != nil {
		return err
	}
	fmt.Printf("\nHolding %s sessions with an auto lease each, on %d connections\n\n", whole(float64(p.sessions)),
		len(c.conns))
	out := newTable("what", "value")
	out.add("opened per second", whole(float64(p.sessions)/opened.at.Sub(idle.at).Seconds()))
	h.rows(out)
	out.add("sessions or leases lost, say the clients", whole(float64(c.ended.Load())))
	out.add("lockd RSS for each session", fmt.Sprintf("%.1f KiB", float64(h.after.rss-idle.rss)/1024/float64(p.sessions)))
	out.print()
	return nil
}

// open opens all sessions, those of a connection one after the other.
func (c *crowd) open(ctx context.Context, e env, sessions int) error {
	var opening sync.WaitGroup
	errs := make(chan error, sessions/perConnection+1)
	c.streams = make([][]lockdv1.SessionService_SessionClient, (sessions+perConnection-1)/perConnection)
	for i := range c.streams {
		conn, err := grpc.NewClient(e.lockd[0].addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow))
		if err != nil {
			return err
		}
		c.conns = append(c.conns, conn)
		opening.Go(func() {
			first := i * perConnection
			for n := first; n < min(first+perConnection, sessions); n++ {
				if err := c.openOne(ctx, i, fmt.Sprint("crowd:", n)); err != nil {
					errs <- fmt.Errorf("open session %d: %w", n, err)
					return
				}
			}
			c.wg.Go(func() { c.beat(ctx, c.streams[i]) })
		})
	}
	opening.Wait()
	close(errs)
	fmt.Fprintf(os.Stderr, "%d sessions are open\n", sessions)
	return <-errs
}

// openOne opens a session on a connection and takes a lease.
func (c *crowd) openOne(ctx context.Context, conn int, name string) error {
	stream, err := lockdv1.NewSessionServiceClient(c.conns[conn]).Session(ctx)
	if err != nil {
		return err
	}
	_ = stream.Send(&lockdv1.SessionRequest{RequestId: 1, Message: &lockdv1.SessionRequest_Open{
		Open: &lockdv1.Open{ClientName: "bench"},
	}}) // Recv tells what is wrong
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	if m.GetOpened() == nil {
		return fmt.Errorf("got %v", m)
	}
	_ = stream.Send(&lockdv1.SessionRequest{RequestId: 2, Message: &lockdv1.SessionRequest_Acquire{
		Acquire: &lockdv1.Acquire{Name: name, Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE},
	}})
	got, err := stream.Recv()
	if err != nil {
		return err
	}
	if got.GetGranted() == nil {
		return fmt.Errorf("got %v", got)
	}
	c.streams[conn] = append(c.streams[conn], stream)
	c.wg.Go(func() { c.listen(stream) })
	return nil
}

// listen reads a stream until it ends.
func (c *crowd) listen(stream lockdv1.SessionService_SessionClient) {
	for {
		m, err := stream.Recv()
		if c.over.Load() {
			return
		}
		if err != nil || m.GetLost() != nil {
			c.ended.Add(1)
		}
		if err != nil {
			return
		}
	}
}

// beat sends the heartbeats of a connection's sessions, spread over their interval.
func (c *crowd) beat(ctx context.Context, streams []lockdv1.SessionService_SessionClient) {
	tick := time.NewTicker(sessionTTL / 3 / time.Duration(max(len(streams), 1)))
	defer tick.Stop()
	for id := uint64(1); ; id++ {
		for _, stream := range streams {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// If it cannot be sent the stream has ended, which its listener counts.
			_ = stream.Send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Heartbeat{
				Heartbeat: &lockdv1.Heartbeat{SentId: id},
			}})
		}
	}
}

func (c *crowd) close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.wg.Wait()
}
