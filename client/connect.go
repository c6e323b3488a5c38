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
	// An attempt to open a session, or to go on with one, may take a third of the session TTL, within these bounds.
	// Shorter ones would not help a replica that has many sessions to take: each attempt begins anew.
	minAttempt = time.Second
	maxAttempt = 30 * time.Second
	// minBackoff and maxBackoff bound the pause between two attempts.
	minBackoff = 50 * time.Millisecond
	maxBackoff = 3 * time.Second
	// shortest is the least heartbeat interval and session TTL: a server that tells less, or none, is mistaken.
	shortest = 10 * time.Millisecond
)

var (
	errOpenTimeout  = errors.New("opening the session took too long")
	errNoOpened     = fmt.Errorf("%w: the first message was not Opened", errProtocol)
	errBadHeartbeat = fmt.Errorf("%w: no sound heartbeat interval or session TTL was told", errProtocol)
)

// connectLocked begins to connect unless that is going on. One goroutine tries all addresses until one is reached, the
// Client is closed, there is no reason to connect any more, or another attempt is without hope.
func (c *Client) connectLocked() {
	if c.connecting || c.closed {
		return
	}
	c.connecting, c.connectErr = true, nil
	c.wg.Go(c.connect)
}

func (c *Client) connect() {
	for c.pause() {
		c.mu.Lock()
		s := c.session                                                               // is to go on, or nil
		over := s != nil && (!s.resumableLocked() || c.open && !s.displacedLocked()) // nobody wants another stream
		c.connecting = !over
		c.mu.Unlock()
		if over {
			return
		}
		st, err := c.try(s)
		c.mu.Lock()
		over = c.triedLocked(s, st, err)
		c.mu.Unlock()
		if over {
			return
		}
	}
}

// sessionGone says whether an attempt to resume a session found that no replica can.
func sessionGone(err error) bool { return is(err, ErrSessionExpired, ErrSuperseded) }

// pause waits before an attempt, longer after each failure, and says whether the attempt is still wanted. The
// randomness keeps the clients of a restarted server from coming all at once.
func (c *Client) pause() bool {
	c.mu.Lock()
	d := min(minBackoff<<min(max(c.failures-1, 0), 10), maxBackoff)
	if s := c.session; s != nil && s.resumableLocked() { // its leases are about to end
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

// triedLocked notes what became of an attempt, and says whether it was the last one. A session that no replica takes,
// and that is on no stream, is over; then a new one is opened at once.
func (c *Client) triedLocked(s *session, st *stream, err error) bool {
	last := permanent(err) && !c.bearsLocked(s, err)
	switch {
	case err == nil:
		c.connectedLocked(st)
		return true
	case c.closed:
		return true
	case errors.Is(err, errSessionOver): // meanwhile
		return false
	case s != nil && s.stream == nil && (sessionGone(err) || last):
		c.failures = 0
		c.endSessionLocked(s, err)
		return false
	case s != nil && s.stream != nil:
		s.stream.stuck = true
		s.leaveIfIdleLocked()
	}
	c.connectErr = err
	c.failures++
	c.connecting = !last
	if last && c.session == nil { // nobody connects any more who would watch again
		c.endWatchesLocked(err)
	}
	c.changeLocked()
	return !c.connecting
}

// bearsLocked says whether to go on trying after ErrUnauthenticated: while locks are held, and for the time of
// WithAnswerTimeout after the first such refusal since there was a session. Credentials are often renewed a moment
// later, and their files are read again. Before the first session it is false: those were never good.
func (c *Client) bearsLocked(s *session, err error) bool {
	if !errors.Is(err, ErrUnauthenticated) {
		return false
	}
	now := c.now()
	c.bears = min(c.bears, now+instant(c.settings.answerWithin))
	return now < c.bears || s != nil && len(s.holds) > 0
}

// ConnectErr is why the Client is on no stream now: how the last attempt to open a session, or to go on with one,
// failed. It is nil while there is a stream, and before the first attempt.
func (c *Client) ConnectErr() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != nil && c.session.stream != nil {
		return nil
	}
	return c.connectErr
}

// connectedLocked notes a session that has a stream.
func (c *Client) connectedLocked(st *stream) {
	s := st.session
	c.tellLocked(Status{State: Connected, Session: s.id})
	c.connecting, c.unreached, c.bears = false, 0, never
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

// endSessionLocked ends a session that is on no stream: all its locks are lost, all its calls unanswered. Another one
// is opened, unless the Client is closed.
func (c *Client) endSessionLocked(s *session, cause error) {
	if s.over {
		return
	}
	s.over, s.said = true, errors.Is(cause, errEnded)
	s.alarm.Stop()
	s.finishAllLocked(cause)
	for _, call := range s.pending {
		call.replyLocked(answer{err: fmt.Errorf("%w: %w", errSessionOver, cause), unsent: !call.sent && !call.seen})
	}
	s.pending, s.queue = nil, nil
	close(s.done)
	if c.session != s || c.closed {
		return
	}
	c.session, c.open = nil, false
	c.tellLocked(Status{State: Disconnected, Err: cause}) // before another one is opened, and that is told
	c.connectLocked()
	c.changeLocked()
}

// drainingLocked has a session go on at another replica. If there is only one address, it first waits for a random part
// of the time that the server gives, so that not all clients come at once.
func (c *Client) drainingLocked(s *session, within time.Duration) {
	c.tellLocked(Status{State: Draining})
	var pause time.Duration
	if len(c.targets) == 1 && within > 0 {
		pause = rand.N(within/4 + 1)
	}
	time.AfterFunc(pause, func() { c.move(s, false) })
}

func (c *Client) move(s *session, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moveLocked(s, closed)
}

// moveLocked seeks another stream for a session, first at a random one of the other addresses: clients that leave a
// replica together spread over the others. If closed is set the session takes no new requests until it has that stream.
func (c *Client) moveLocked(s *session, closed bool) {
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

// try makes one attempt at each address until one succeeds, or s has ended. If s is nil it opens a new session.
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

// begin has a session begin, or go on, in a stream. It connects first, because from bid on the session sends nothing on
// its present stream. Connecting may take a third of the time of an attempt. After each attempt that took longer that
// doubles: where all clients of a replica come at once connecting takes long, and each attempt begins it again.
func (c *Client) begin(st *stream) error {
	s := st.session
	within := min(maxAttempt, max(cmp.Or(s.ttl, maxAttempt)/3, minAttempt)) // a new session has no TTL yet
	bound := time.AfterFunc(min(within/3<<min(c.unreached, 2), within), func() { st.cancel(errOpenTimeout) })
	defer bound.Stop()
	defer context.AfterFunc(c.ctx, func() { st.cancel(ErrClosed) })()
	rpc, err := lockdv1.NewSessionServiceClient(st.conn).Session(st.ctx, grpc.ForceCodecV2(wire.New()))
	if err != nil {
		if errors.Is(context.Cause(st.ctx), errOpenTimeout) {
			c.unreached++
		}
		return FromStatus(err)
	}
	st.rpc = rpc
	bound.Reset(within)
	b, ok := s.bid()
	if !ok {
		return errSessionOver
	}
	defer s.unpark() // nothing to do after attach
	opened, err := st.handshake(b)
	if err != nil {
		return fromStream(err)
	}
	if !s.attach(st, b, opened) {
		return errSessionOver
	}
	return nil
}

// handshake sends Open and waits for Opened.
func (st *stream) handshake(b *bid) (*lockdv1.Opened, error) {
	c, id := st.session.client, b.resume.GetLastRequestId()
	open := proto.CloneOf(&c.settings.open)
	if b.resume.GetSessionId() != "" {
		open.Resume = b.resume
	}
	st.epoch, st.beats.opened = b.resume.GetEpoch(), c.now()
	// When sending fails Recv tells why.
	_ = st.rpc.Send(&lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Open{Open: open}})
	m, err := st.rpc.Recv()
	if err != nil {
		return nil, err
	}
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Opened:
		st.ttl, st.interval = told(t.Opened.GetSessionTtl()), told(t.Opened.GetHeartbeatInterval())
		if min(st.ttl, st.interval) < shortest {
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
