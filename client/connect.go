package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
)

const (
	// openTimeout bounds an attempt to open a session. Of several addresses each has its share, but not less than the minimum.
	openTimeout    = 10 * time.Second
	minOpenTimeout = 3 * time.Second
	// minBackoff and maxBackoff bound the pause between two attempts.
	minBackoff = 50 * time.Millisecond
	maxBackoff = 3 * time.Second
	// longSession is how long a session lives that is a success: after it connecting begins without a pause.
	longSession = 10 * time.Second
)

var (
	errOpenTimeout  = errors.New("opening the session took too long")
	errNoOpened     = fmt.Errorf("%w: the first message was not Opened", errProtocol)
	errBadHeartbeat = fmt.Errorf("%w: no heartbeat interval or session TTL was told", errProtocol)
)

// connectLocked begins to connect unless that is going on. One goroutine does it until it succeeds, the Client is
// closed, or there is no hope.
func (c *Client) connectLocked() {
	if c.connecting || c.closed {
		return
	}
	c.connecting, c.connectErr = true, nil
	c.wg.Go(c.connect)
}

func (c *Client) connect() {
	for c.pause() {
		s, err := c.open()
		if err != nil && c.ctx.Err() != nil {
			return
		}
		if c.opened(s, err) {
			return
		}
	}
}

// pause waits before an attempt, longer after each failure, and says whether the attempt is still wanted. The
// randomness keeps the clients of a restarted server from coming all at once.
func (c *Client) pause() bool {
	c.mu.Lock()
	failures := c.failures
	c.mu.Unlock()
	if failures == 0 {
		return c.ctx.Err() == nil
	}
	d := min(minBackoff<<min(failures-1, 10), maxBackoff)
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// opened takes note of an attempt and says whether it was the last one.
func (c *Client) opened(s *session, err error) bool {
	if err != nil {
		return c.failed(err)
	}
	c.tell(Status{State: Connected})
	watched := c.watches.names() // before anybody can watch in this session
	c.mu.Lock()
	c.connecting = false
	c.sessions[s] = struct{}{}
	c.wg.Go(s.read)
	c.wg.Go(s.write)
	closed := c.closed
	if !closed {
		c.current = s
	}
	c.changeLocked()
	c.mu.Unlock()
	if closed {
		s.cancel(ErrClosed)
		return true
	}
	c.watchAgain(s, watched)
	return true
}

// failed takes note of a failed attempt and says whether another one is without hope.
func (c *Client) failed(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connectErr = err
	c.failures++
	c.connecting = !permanent(err)
	c.changeLocked()
	return !c.connecting
}

// sessionOver is called by a session's reader at its very end.
func (c *Client) sessionOver(s *session, cause error) {
	s.finish(cause)
	c.mu.Lock()
	delete(c.sessions, s)
	c.failures++
	if c.now()-s.beats.opened > instant(longSession) {
		c.failures = 0
	}
	c.mu.Unlock()
	if c.forget(s) {
		c.tell(Status{State: Disconnected, Err: cause})
	}
}

// sessionDraining goes to another replica for what comes next, and leaves what there is where it is.
func (c *Client) sessionDraining(s *session) {
	c.passOver(s.at)
	if c.forget(s) {
		c.tell(Status{State: Draining})
	}
}

// isCurrent says whether a session is the one that takes new requests.
func (c *Client) isCurrent(s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current == s
}

// forget has no new requests go to a session, looks for another one, and says whether there was anything to do.
func (c *Client) forget(s *session) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != s || c.closed {
		return false
	}
	c.current = nil
	c.connectLocked()
	c.changeLocked()
	return true
}

// open makes one attempt at each address until one succeeds.
func (c *Client) open() (*session, error) {
	var failed error
	for range c.targets {
		c.mu.Lock()
		at := c.at
		c.mu.Unlock()
		s, err := c.openAt(c.targets[at])
		if err == nil {
			s.at = at
			return s, nil
		}
		if failed == nil || permanent(failed) {
			failed = err
		}
		c.passOver(at)
		if c.ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// passOver has the next attempt begin with the address after this one.
func (c *Client) passOver(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = (at + 1) % len(c.targets)
}

// openAt makes one attempt at one address. Each session has a connection of its own, so that a new session can be on
// another replica while the old one is still being left.
func (c *Client) openAt(target string) (*session, error) {
	conn, err := grpc.NewClient(target, c.settings.dialOptions()...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s, err := c.handshake(ctx, cancel, conn)
	if err != nil {
		err = fmt.Errorf("open a session: %w", err)
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", unavailable(cause), err)
		}
		cancel(err)
		_ = conn.Close() // it was never used
		return nil, err
	}
	return s, nil
}

// handshake opens the stream and the session on it, within openTimeout, or less if there are other addresses.
func (c *Client) handshake(ctx context.Context, cancel context.CancelCauseFunc, conn *grpc.ClientConn) (*session, error) {
	within := max(openTimeout/time.Duration(len(c.targets)), minOpenTimeout)
	bound := time.AfterFunc(within, func() { cancel(errOpenTimeout) })
	defer bound.Stop()
	stop := context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })
	defer stop()

	stream, err := lockdv1.NewSessionServiceClient(conn).Session(ctx, grpc.ForceCodecV2(wire.New()))
	if err != nil {
		return nil, FromStatus(err)
	}
	s := c.newSession(ctx, cancel)
	s.conn, s.stream = conn, stream
	s.beats.opened = c.now()
	// When sending fails Recv tells why.
	_ = stream.Send(&lockdv1.SessionRequest{
		RequestId: s.nextID, Message: &lockdv1.SessionRequest_Open{Open: c.settings.open()},
	})
	m, err := stream.Recv()
	if err != nil {
		return nil, fromStream(err)
	}
	return s, s.begin(m)
}

func (c *Client) newSession(ctx context.Context, cancel context.CancelCauseFunc) *session {
	s := &session{
		client:  c,
		ctx:     ctx,
		cancel:  cancel,
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		nextID:  1, // that of Open
		pending: make(map[uint64]*call),
		locks:   make(map[holdKey]*Lock),
	}
	s.alarm.ring, s.bell.alarm.ring = s.ring, s.bell.ring
	return s
}

// begin takes the server's first message.
func (s *session) begin(m *lockdv1.SessionResponse) error {
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Opened:
		s.limits = t.Opened.GetLimits()
		s.batches = slices.Contains(t.Opened.GetFeatures(), lockdv1.Feature_FEATURE_BATCH)
		s.ttl = t.Opened.GetSessionTtl().AsDuration()
		s.interval = t.Opened.GetHeartbeatInterval().AsDuration()
	case *lockdv1.SessionResponse_Closing:
		return cmp.Or(fromProto(t.Closing.GetStatus()), errEnded)
	case *lockdv1.SessionResponse_Result:
		return cmp.Or(fromProto(t.Result.GetStatus()), errNoOpened)
	default:
		return errNoOpened
	}
	if s.ttl <= 0 || s.interval <= 0 {
		return errBadHeartbeat
	}
	s.heardID = s.nextID
	s.heard.Store(int64(s.client.now()))
	s.quiet = time.AfterFunc(s.ttl, s.listen)
	return nil
}
