package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
)

const (
	// An attempt to open a session, or to go on with one, takes a third of the session TTL at most: a replica that has
	// many sessions to take, or many locks, does all of it again for the next attempt. These bound it.
	minAttempt = time.Second
	maxAttempt = 30 * time.Second
	// minBackoff and maxBackoff bound the pause between two attempts.
	minBackoff = 50 * time.Millisecond
	maxBackoff = 3 * time.Second
)

// attemptTimeout bounds an attempt. Before a session is there its TTL is not known.
func attemptTimeout(ttl time.Duration) time.Duration {
	return min(maxAttempt, max(cmp.Or(ttl, maxAttempt)/3, minAttempt))
}

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
	for c.pause() && !c.attempt() {
	}
}

// attempt tries all addresses, and says whether that is over: it succeeded, there is no reason to connect any more, or
// another attempt is without hope.
func (c *Client) attempt() bool {
	c.mu.Lock()
	s := c.session // is to go on, or nil
	unwanted := s != nil && (!s.resumableLocked() || c.open && !s.displacedLocked())
	if unwanted {
		c.connecting = false
	}
	c.mu.Unlock()
	if unwanted || c.ctx.Err() != nil {
		return true
	}
	st, err := c.try(s)
	switch {
	case err == nil:
		c.connected(st)
		return true
	case c.ctx.Err() != nil:
		return true
	case errors.Is(err, errSessionOver): // meanwhile
		return false
	}
	return c.failed(s, err)
}

// sessionGone says whether an attempt to resume a session found that nobody can.
func sessionGone(err error) bool { return is(err, ErrSessionExpired, ErrSuperseded) }

// pause waits before an attempt, longer after each failure, and says whether the attempt is still wanted. The
// randomness keeps the clients of a restarted server from coming all at once.
func (c *Client) pause() bool {
	c.mu.Lock()
	d := min(minBackoff<<min(max(c.failures-1, 0), 10), maxBackoff)
	if s := c.session; s != nil && s.resumableLocked() { // its leases end, however often it was interrupted of late
		d = min(d, max(s.ttl/12, minBackoff))
	}
	if c.failures == 0 {
		d = 0
	}
	c.mu.Unlock()
	if d > 0 {
		d = d/2 + rand.N(d/2)
	}
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
	return c.ctx.Err() == nil
}

// connected notes a session that has a stream.
func (c *Client) connected(st *stream) {
	s := st.session
	c.tell(Status{State: Connected, Session: s.id})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connecting, c.unreached = false, 0
	c.wg.Go(st.read)
	c.wg.Go(st.write)
	switch {
	case !c.closed:
		c.session, c.open = s, true
		s.watchAgainLocked()
	case c.session != s: // else Close says Goodbye
		st.cancel(ErrClosed)
	}
	c.changeLocked()
}

// failed notes a failed attempt and says whether another one is without hope. A session that nobody takes, and that is
// on no stream, is over; then a new one is opened at once.
func (c *Client) failed(s *session, err error) bool {
	c.mu.Lock()
	if s != nil && s.stream == nil && (sessionGone(err) || permanent(err)) {
		c.mu.Unlock()
		c.sessionOver(s, err)
		return c.attempt()
	}
	defer c.mu.Unlock()
	if s != nil && s.stream != nil {
		s.stream.stuck = true
		s.leaveIfIdleLocked()
	}
	c.connectErr = err
	c.failures++
	c.connecting = !permanent(err)
	c.changeLocked()
	return !c.connecting
}

// sessionOver ends a session that is on no stream: all its locks are lost, all its calls unanswered.
func (c *Client) sessionOver(s *session, cause error) {
	c.mu.Lock()
	if s.over {
		c.mu.Unlock()
		return
	}
	s.over, s.said = true, errors.Is(cause, errEnded)
	s.alarm.Stop()
	s.finishAllLocked(cause)
	pending := s.pending
	s.pending, s.queue = nil, nil
	known := c.session == s && !c.closed
	c.open = c.open && !known
	c.mu.Unlock()
	close(s.done)
	for _, call := range pending {
		call.reply(answer{err: fmt.Errorf("%w: %w", errSessionOver, cause), unsent: !call.sent && !call.seen})
	}
	if !known {
		return
	}
	c.tell(Status{State: Disconnected, Err: cause}) // before another one is opened, and that is told
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
	c.connectLocked()
	c.changeLocked()
}

// draining has a session go on at another replica. If there is only one address, it waits for a part of the time that
// the server gives: others come from there, too.
func (c *Client) draining(s *session, within time.Duration) {
	c.tell(Status{State: Draining})
	if len(c.targets) > 1 || within <= 0 {
		c.move(s, false)
		return
	}
	time.AfterFunc(rand.N(within/4+1), func() { c.move(s, false) })
}

// move looks for another stream for a session, at any other address than it is at: those who leave a replica together
// are to spread over the others. If closed is set the session takes no new requests until then.
func (c *Client) move(s *session, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != s || c.closed {
		return
	}
	if others := len(c.targets) - 1; others > 0 && !c.connecting {
		c.at = (s.at + 1 + rand.IntN(others)) % len(c.targets)
	}
	c.connectLocked()
	if closed && c.open {
		c.open = false
		c.changeLocked()
	}
}

// try makes one attempt at each address until one succeeds, or the session that is to go on has ended. Without one a
// new session is opened.
func (c *Client) try(s *session) (st *stream, failed error) {
	for range c.targets {
		st, err := c.tryAt(c.at, s)
		if err == nil {
			return st, nil
		}
		c.at = (c.at + 1) % len(c.targets)
		gone := s != nil && sessionGone(err)
		if failed == nil || permanent(failed) || gone {
			failed = err
		}
		if gone || errors.Is(err, errSessionOver) || c.ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

// tryAt makes one attempt at one address.
func (c *Client) tryAt(at int, s *session) (*stream, error) {
	conn, err := c.settings.conn(c.targets[at])
	if err != nil {
		return nil, err
	}
	what := "resume the session"
	if s == nil {
		s, what = c.newSession(), "open a session"
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	st := &stream{session: s, at: at, conn: conn, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1)}
	if err := c.begin(st); err != nil {
		err = fmt.Errorf("%s at %s: %w", what, c.targets[at], err)
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", unavailable(cause), err)
		}
		st.close(err)
		return nil, err
	}
	return st, nil
}

// begin has a session begin, or go on, in a stream. It connects first, because a session that is on another stream
// stands still from bid on.
func (c *Client) begin(st *stream) error {
	s := st.session
	within := attemptTimeout(s.ttl)
	if err := c.reach(st, within); err != nil {
		return err
	}
	b, ok := s.bid()
	if !ok {
		return errSessionOver
	}
	defer s.unpark() // nothing to do after attach
	st.epoch, st.heardID = b.resume.GetEpoch(), b.resume.GetLastRequestId()
	open := proto.CloneOf(&c.settings.open)
	if b.resume.GetSessionId() != "" {
		open.Resume = b.resume
	}
	opened, err := c.handshake(st, open, within)
	if err != nil {
		return err
	}
	if !s.attach(st, b, opened) {
		return errSessionOver
	}
	return nil
}

// reach connects. A server that does not even connect is given up sooner than an attempt: after a third of its time.
// That doubles with each attempt that it ended: where all clients of a replica come at once, connecting takes long, and
// each further attempt begins it again.
func (c *Client) reach(st *stream, within time.Duration) error {
	within = min(within/3<<min(c.unreached, 2), within)
	return c.bounded(st, within, func() (err error) {
		st.rpc, err = lockdv1.NewSessionServiceClient(st.conn).Session(st.ctx, grpc.ForceCodecV2(wire.New()))
		if errors.Is(context.Cause(st.ctx), errOpenTimeout) {
			c.unreached++
		}
		return FromStatus(err)
	})
}

// handshake sends Open and waits for Opened.
func (c *Client) handshake(st *stream, open *lockdv1.Open, within time.Duration) (opened *lockdv1.Opened, err error) {
	err = c.bounded(st, within, func() error {
		st.beats.opened = c.now()
		// When sending fails Recv tells why.
		_ = st.rpc.Send(&lockdv1.SessionRequest{RequestId: st.heardID, Message: &lockdv1.SessionRequest_Open{Open: open}})
		m, err := st.rpc.Recv()
		if err == nil {
			opened, err = st.greeted(m)
		}
		return fromStream(err)
	})
	return opened, err
}

// bounded does a part of an attempt, until some time has passed or the Client is closed.
func (c *Client) bounded(st *stream, within time.Duration, part func() error) error {
	bound := time.AfterFunc(within, func() { st.cancel(errOpenTimeout) })
	defer bound.Stop()
	stop := context.AfterFunc(c.ctx, func() { st.cancel(ErrClosed) })
	defer stop()
	return part()
}

// greeted takes the server's first message.
func (st *stream) greeted(m *lockdv1.SessionResponse) (*lockdv1.Opened, error) {
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Opened:
		st.ttl = t.Opened.GetSessionTtl().AsDuration()
		st.interval = t.Opened.GetHeartbeatInterval().AsDuration()
		if st.ttl <= 0 || st.interval <= 0 {
			return nil, errBadHeartbeat
		}
		return t.Opened, nil
	case *lockdv1.SessionResponse_Closing:
		return nil, cmp.Or(fromFailure(t.Closing.GetFailure()), errEnded)
	case *lockdv1.SessionResponse_Result:
		return nil, cmp.Or(fromFailure(t.Result.GetFailure()), errNoOpened)
	}
	return nil, errNoOpened
}
