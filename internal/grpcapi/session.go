package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
)

// flushTime is how long an ended session waits for its client to read the last messages.
const flushTime = time.Second

type (
	sessionStream = grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]

	sessionService struct {
		lockdv1.UnimplementedSessionServiceServer
		cfg     Config
		b       *broker.Broker
		log     *zap.Logger
		metrics *metrics
		readers *sync.WaitGroup
	}
)

// Session serves one stream. Three goroutines take part: a reader that hands messages to the broker, this one, which
// waits for what ends the stream, and a writer that lives only while there is something to write. So neither a
// client that does not read nor one that does not write can keep the stream from being closed.
func (h *sessionService) Session(stream sessionStream) error {
	h.metrics.streams.Inc()
	defer h.metrics.streams.Dec()
	slot, err := h.b.Arrive(peerOf(stream.Context()))
	if err != nil {
		return toStatus(err)
	}
	defer slot.Leave()
	c := &conn{stream: stream, b: h.b, log: h.log, slot: slot, opened: make(chan error, 1), closed: make(chan error, 1)}
	h.readers.Go(c.read)
	timer := time.NewTimer(h.cfg.OpenTimeout)
	defer timer.Stop()
	select {
	case err := <-c.opened:
		if err != nil {
			return toStatus(err)
		}
	case <-timer.C:
		return toStatus(fmt.Errorf("no message within %v: %w", h.cfg.OpenTimeout, broker.ErrNotOpen))
	}
	if err := stream.Send(c.greeting()); err != nil {
		c.sess.End(err)
		return err
	}
	return c.serve()
}

// conn is one stream with its session.
type conn struct {
	stream sessionStream
	b      *broker.Broker
	log    *zap.Logger
	slot   *broker.Slot
	opened chan error // size 1: the outcome of Open, after which the fields below are set
	closed chan error // size 1: why the reader ended; nil after a clean half-close

	sess    *broker.Session
	openID  uint64 // the request id of Open
	batches bool   // the client understands ResponseBatch
}

// read passes the client's messages to the broker until the stream ends, and then ends the session: the handler may
// have given up just when Open came.
func (c *conn) read() {
	first, err := c.stream.Recv()
	if err == nil {
		err = c.open(first)
	}
	c.opened <- err
	if err != nil {
		return
	}
	for {
		c.awaitRoom()
		m, err := c.stream.Recv()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
				c.sess.Goodbye()
			} else {
				c.sess.End(err)
			}
			c.closed <- err
			return
		}
		c.dispatch(m)
	}
}

// awaitRoom waits while the client does not read its answers, so that they do not fill the memory. The client then cannot
// send for long either: HTTP/2 lets it send no more than a window ahead of us.
func (c *conn) awaitRoom() {
	relief := c.sess.Outbox().Pressure()
	if relief == nil {
		return
	}
	c.sess.Unread(true)
	defer c.sess.Unread(false)
	select {
	case <-relief:
	case <-c.sess.Done():
	case <-c.stream.Context().Done():
	}
}

func (c *conn) open(m *lockdv1.SessionRequest) error {
	if err := marked(m); err != nil {
		return err
	}
	req := m.GetOpen()
	if req == nil {
		return broker.ErrNotOpen
	}
	open, err := toOpen(req)
	if err != nil {
		return err
	}
	open.Client.Peer, open.Slot = peerOf(c.stream.Context()), c.slot
	c.openID, c.batches = m.GetRequestId(), wantsBatches(req)
	c.sess, err = c.b.Open(open)
	return err
}

// peerOf is the network address a call comes from.
func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

func (c *conn) greeting() *lockdv1.SessionResponse {
	return &lockdv1.SessionResponse{
		RequestId: c.openID, Message: &lockdv1.SessionResponse_Opened{Opened: fromSession(c.b, c.sess)},
	}
}

// serve writes what the outbox has until the session or the stream ends.
func (c *conn) serve() error {
	var writer chan error // closed by the running writer; nil if none runs
	for {
		select {
		case <-c.wakeUnless(writer):
			writer = c.write(nil)
		case err := <-writer:
			writer = nil
			if err != nil {
				c.sess.End(err)
			}
		case err := <-c.closed:
			if err != nil {
				return toStatus(err)
			}
			c.closed = nil
		case <-c.sess.Done():
			return c.finish(writer)
		}
	}
}

// wakeUnless is the outbox's signal while no writer runs.
func (c *conn) wakeUnless(writer chan error) <-chan struct{} {
	if writer != nil {
		return nil
	}
	return c.sess.Outbox().Wake()
}

// finish writes what is left and says why the stream ends, if the client reads it in time.
func (c *conn) finish(writer chan error) error {
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	err := toStatus(c.sess.Cause())
	if writer != nil {
		select {
		case <-writer:
		case <-timer.C:
			return err
		}
	}
	var last *lockdv1.SessionResponse
	if err != nil {
		last = &lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Closing{
			Closing: &lockdv1.Closing{Status: status.Convert(err).Proto()},
		}}
	}
	select {
	case <-c.write(last):
	case <-timer.C:
	}
	return err
}

// write starts a writer that sends the outbox's events, and a last message if there is one, and then reports on the
// returned channel.
func (c *conn) write(last *lockdv1.SessionResponse) chan error {
	done := make(chan error, 1)
	go func() { done <- c.writeAll(last) }()
	return done
}

// writeAll converts and sends some events at a time: what the client does not read stays small, and remaining times are
// told as they are when a message is sent.
func (c *conn) writeAll(last *lockdv1.SessionResponse) error {
	for {
		events := c.sess.Outbox().TakeSome(batchSize, batchBytes)
		if len(events) == 0 {
			break
		}
		for _, m := range c.frames(events) {
			if err := c.stream.Send(m); err != nil {
				return err
			}
		}
	}
	if last == nil {
		return nil
	}
	return c.stream.Send(last)
}

// frames are the messages for some events: a batch if the client understands it.
func (c *conn) frames(events []broker.Event) []*lockdv1.SessionResponse {
	messages := make([]*lockdv1.SessionResponse, 0, len(events))
	for _, e := range events {
		messages = append(messages, fromEvent(e))
	}
	if !c.batches || len(messages) == 1 {
		return messages
	}
	return []*lockdv1.SessionResponse{{Message: &lockdv1.SessionResponse_Batch{
		Batch: &lockdv1.ResponseBatch{Responses: messages},
	}}}
}
