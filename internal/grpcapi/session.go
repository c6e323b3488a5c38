package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// mostPatience bounds how long a piece of requests waits at the gate. Heartbeats come every third of a session TTL on
// the same stream, and may be unread behind the requests. So a piece does not wait at all once a heartbeat may have
// come.
const mostPatience = time.Second

type (
	sessionStream = grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]

	sessionService struct {
		lockdv1.UnimplementedSessionServiceServer
		cfg     Config
		b       *broker.Broker
		log     *zap.Logger
		metrics *metrics
		auth    authenticator
		workers *sync.WaitGroup
	}
)

// Session serves one stream. Three goroutines take part: a reader that hands messages to the broker, this one, which
// waits for what ends the stream, and a writer that lives while the stream is in use. So neither a client that does not
// read nor one that does not write can keep the stream from being closed.
func (h *sessionService) Session(stream sessionStream) error {
	err := toStatus(h.session(stream))
	stream.SetTrailer(trailer(err))
	return err
}

func (h *sessionService) session(stream sessionStream) error {
	h.metrics.streams.Inc()
	defer h.metrics.streams.Dec()
	who, err := h.auth.identify(stream.Context())
	if err != nil {
		return err
	}
	tenant := who.tenant(stream.Context())
	use := h.b.Tenants().Use(tenant)
	if err := use.Take(limits.UseStreams, 1); err != nil {
		return err
	}
	defer use.Give(limits.UseStreams, 1)
	slot, err := h.b.Arrive(tenant)
	if err != nil {
		return err
	}
	defer slot.Leave()
	// All clients of a site may come at once.
	if err := h.b.Tenants().Work(stream.Context(), tenant, limits.Opening, h.cfg.OpenTimeout); err != nil {
		return err
	}
	c := &conn{
		sessionService: h, stream: stream, slot: slot, who: who, use: use,
		came: make(chan struct{}), opened: make(chan error, 1), closed: make(chan error, 1),
		last: make(chan *lockdv1.SessionResponse, 1), wrote: make(chan error, 1),
	}
	h.workers.Go(c.read)
	if err := c.await(); err != nil {
		return err
	}
	if err := stream.Send(c.greeting()); err != nil {
		c.broke(err)
		return err
	}
	c.greeted.Store(true)
	defer close(c.last)
	return c.serve()
}

// await waits until the session is open. The first message has to come within OpenTimeout. Then the store's own time
// limits hold.
func (c *conn) await() error {
	select {
	case <-c.came:
		return <-c.opened
	case <-time.After(c.cfg.OpenTimeout):
		return fmt.Errorf("no message within %v: %w", c.cfg.OpenTimeout, session.ErrNotOpen)
	}
}

// conn is one stream with its session.
type conn struct {
	*sessionService
	stream sessionStream
	slot   *limits.Slot
	who    *caller       // nil if everybody may do everything
	use    *limits.Use   // what its client has; nil if that is not counted
	came   chan struct{} // closed when the first message came, or none will
	opened chan error    // size 1: the outcome of Open, after which the fields below are set
	closed chan error    // size 1: why the reader ended; nil after Goodbye

	sess    *broker.Session
	lost    []session.Lost // of the holds that the client wanted to go on with
	resumed bool
	greeted atomic.Bool // Opened was sent
	openID  uint64      // the request id of Open
	batches bool        // the client understands ResponseBatch

	// Of the reader.
	piece  []request.Request // collected from the message at hand, in buffer
	buffer *[pieceSize]request.Request
	beat   time.Time // about when the last heartbeat was sent, or Open
	parted bool      // Goodbye came

	// Of the writer.
	last  chan *lockdv1.SessionResponse // size 1: what is to be sent last, or nil; closed when the stream is over
	wrote chan error                    // size 1: why the writer has ended; nil if it may be started again
}

// read passes the client's messages to the broker until the stream ends, and then tells the session: the handler may
// have given up just when Open came.
func (c *conn) read() {
	first := incoming{first: true}
	err := c.stream.RecvMsg(&first)
	close(c.came)
	if err == nil {
		err = c.open(&first.SessionRequest)
	}
	c.opened <- err
	if err != nil {
		return
	}
	var r incoming
	for {
		c.settle()
		c.awaitReading()
		if err := c.stream.RecvMsg(&r); err != nil {
			if errors.Is(err, io.EOF) {
				err = errNoGoodbye
			}
			if c.parted {
				err = nil
			}
			c.broke(err)
			c.closed <- err
			return
		}
		c.sess.Spend(r.price())
		c.dispatch(&r.SessionRequest)
		r.ResetVT()
	}
}

// errNoGoodbye is a break as any other. gRPC for Node half-closes a stream when its program cancels the call, and when
// a keepalive fails.
var errNoGoodbye = errors.New("the client closed its side of the stream without Goodbye")

// broke detaches the session from its stream, or ends it if the client was not told its token and so cannot come back.
func (c *conn) broke(err error) {
	if c.resumed || c.greeted.Load() {
		c.sess.Detach(err)
	} else {
		c.sess.End(err)
	}
}

// settle waits until the session has paid for the work that it caused outside of the store.
func (c *conn) settle() {
	if wait := c.sess.Owes(); wait > 0 {
		until(c, time.After(wait))
	}
}

// until waits for what, or for the end of the session or the stream.
func until[T any](c *conn, what <-chan T) {
	select {
	case <-what:
	case <-c.sess.Done():
	case <-c.stream.Context().Done():
	}
}

// awaitReading waits while the client does not read its answers, so that they do not fill the memory. The client then
// cannot send for long either: HTTP/2 lets it send no more than a window ahead of us.
func (c *conn) awaitReading() {
	relief := c.sess.Outbox().Pressure()
	if relief == nil {
		return
	}
	c.sess.Unread(true)
	defer c.sess.Unread(false)
	until(c, relief)
}

func (c *conn) open(m *lockdv1.SessionRequest) error {
	if err := marked(m); err != nil {
		return err
	}
	req := m.GetOpen()
	if req == nil {
		return session.ErrNotOpen
	}
	open, err := toOpen(req)
	if err != nil {
		return err
	}
	ctx := c.stream.Context()
	open.Client.Peer, open.Client.Tenant, open.Slot = peerOf(ctx), c.who.tenant(ctx), c.slot
	if c.who != nil {
		open.Identity, open.Client.Identity = c.who, c.who.Client()
	}
	c.openID, c.batches = m.GetRequestId(), slices.Contains(req.GetFeatures(), lockdv1.Feature_FEATURE_BATCH)
	c.beat = time.Now()
	if req.GetResume() == nil {
		c.sess, err = c.b.Open(open)
		c.review()
		return err
	}
	c.resumed = true
	// Renewals of sessions that are here come first. A resume waits only for a part of the time that its locks have left.
	patience := min(cmp.Or(open.TTL, c.b.SessionTTL())/12, mostPatience)
	share := req.GetResume().GetSessionId()
	if c.who != nil {
		share = string(open.Client.Tenant)
	}
	c.cfg.Gate.Enter(share, len(req.GetResume().GetHolds())+1, patience, ctx.Done())
	resume, err := toResume(open, req.GetResume())
	if err == nil {
		c.sess, c.lost, err = c.b.Resume(ctx, resume)
		c.review()
	}
	return err
}

// review has an open session check its rights, as the clients file may have changed while it opened.
func (c *conn) review() {
	if c.sess != nil {
		c.sess.Review(c.cfg.Guard.EndsHolds())
	}
}

// tenantOf is whose share of everything a unary call uses.
func tenantOf(ctx context.Context) lock.Tenant { return callerOf(ctx).tenant(ctx) }

// peerOf is the network address a call comes from.
func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

func (c *conn) greeting() *lockdv1.SessionResponse {
	opened := fromSession(c.b, c.sess)
	if c.resumed {
		for _, h := range c.sess.Resumed() {
			opened.Resumed = append(opened.Resumed, fromHeldLock(h))
		}
		for _, l := range c.lost {
			opened.Lost = append(opened.Lost, fromLost(l))
		}
	}
	return &lockdv1.SessionResponse{RequestId: c.openID, Message: &lockdv1.SessionResponse_Opened{Opened: opened}}
}
