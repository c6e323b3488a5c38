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
	"google.golang.org/grpc/connectivity"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/api/wire"
)

const (
	// openTimeout bounds an attempt to open a session. Of several addresses each has its share, but not less than the
	// minimum.
	openTimeout    = 10 * time.Second
	minOpenTimeout = 3 * time.Second
	// minResumeTimeout is the least time for an attempt to resume a session. With a longer session TTL it is a third of
	// that, up to maxResumeTimeout: a replica that has many sessions to take, or many locks, does all of it again for
	// the next attempt.
	minResumeTimeout = time.Second
	maxResumeTimeout = 30 * time.Second
	// minReachTimeout is the least time for the connection of such an attempt. With a longer session TTL it is a sixth
	// of that, up to minOpenTimeout. It doubles with each attempt that it ended, up to the time of the attempt: where
	// all clients of a replica come at once, connecting takes long, and each further attempt begins it again.
	minReachTimeout = 500 * time.Millisecond
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
		s, wanted := c.wanted()
		if !wanted || c.attempt(s) {
			return
		}
	}
}

// wanted says whether there is still a reason to connect, and which session is to go on, if any.
func (c *Client) wanted() (*session, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	if c.current != nil {
		if attached, leaving := c.current.attached(); attached && !leaving {
			c.connecting = false
			return nil, false
		}
	}
	if c.live != nil && c.live.resumable() {
		return c.live, true
	}
	return nil, true
}

// attempt tries all addresses, and says whether that is over: it succeeded, or another attempt is without hope. s is to
// go on, or nil.
func (c *Client) attempt(s *session) bool {
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
	if s != nil && (sessionGone(err) || permanent(err)) {
		if attached, _ := s.attached(); !attached {
			c.sessionOver(s, err)
			return c.attempt(nil) // at once
		}
	}
	if s != nil {
		s.stuck()
	}
	return c.failed(err)
}

// sessionGone says whether an attempt to resume a session found that nobody can.
func sessionGone(err error) bool {
	return errors.Is(err, ErrSessionExpired) || errors.Is(err, ErrSuperseded)
}

// pause waits before an attempt, longer after each failure, and says whether the attempt is still wanted. The
// randomness keeps the clients of a restarted server from coming all at once.
func (c *Client) pause() bool {
	c.mu.Lock()
	failures, s := c.failures, c.live
	c.mu.Unlock()
	if failures == 0 {
		return c.ctx.Err() == nil
	}
	d := min(minBackoff<<min(failures-1, 10), maxBackoff)
	if s != nil && s.resumable() { // its leases end, however often it was interrupted of late
		d = min(d, max(s.ttl/12, minBackoff))
	}
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// connected notes a session that has a stream.
func (c *Client) connected(st *stream) {
	s := st.session
	c.tell(Status{State: Connected, Session: s.id})
	watched := c.watches.names() // before anybody can watch in this session
	c.mu.Lock()
	c.connecting, c.unreached = false, 0
	_, known := c.sessions[s]
	c.sessions[s] = struct{}{}
	c.wg.Go(st.read)
	c.wg.Go(st.write)
	closed := c.closed
	if !closed {
		c.current, c.live = s, s
	}
	c.changeLocked()
	c.mu.Unlock()
	if closed {
		if !known { // else Close says Goodbye
			st.cancel(ErrClosed)
		}
		return
	}
	c.watchAgain(s, watched)
}

// failed notes a failed attempt and says whether another one is without hope.
func (c *Client) failed(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connectErr = err
	c.failures++
	c.connecting = !permanent(err)
	c.changeLocked()
	return !c.connecting
}

// streamOver is called by a stream's reader at its very end. keep says that the session goes on in another one.
func (c *Client) streamOver(st *stream, cause error, keep bool) {
	s := st.session
	c.mu.Lock()
	c.failures++
	if c.now()-st.beats.opened > instant(longSession) {
		c.failures = 0
	}
	c.mu.Unlock()
	if !keep {
		c.sessionOver(s, cause)
		return
	}
	c.tell(Status{State: Interrupted, Err: cause})
	c.elsewhere(st.at)
	c.forget(s)
	c.move()
}

// sessionOver ends a session that is on no stream.
func (c *Client) sessionOver(s *session, cause error) {
	s.finish(cause)
	c.mu.Lock()
	delete(c.sessions, s)
	was := c.live == s && !c.closed
	if was {
		c.live = nil
	}
	c.mu.Unlock()
	if c.forget(s) || was {
		c.tell(Status{State: Disconnected, Err: cause})
	}
}

// streamDraining has the session go on at another replica. If there is only one address, it waits for a part of the
// time that the server gives: others come from there, too.
func (c *Client) streamDraining(st *stream, within time.Duration) {
	s := st.session
	c.elsewhere(st.at)
	c.tell(Status{State: Draining})
	if !s.resumable() {
		c.forget(s)
		return
	}
	if len(c.targets) > 1 || within <= 0 {
		c.move()
		return
	}
	time.AfterFunc(rand.N(within/4+1), c.move)
}

// streamSilent has the session go on at another replica: the one that it is at may stand still, or be cut off from
// here. The stream stays until then, and the session stays if the server is heard again before.
func (c *Client) streamSilent(st *stream) {
	s := st.session
	s.mu.Lock()
	suspect := st.suspectLocked()
	s.mu.Unlock()
	if suspect {
		c.tell(Status{State: Interrupted, Err: ErrSilent})
		c.elsewhere(st.at)
		c.move()
	}
}

// move looks for a better stream than the one there is.
func (c *Client) move() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		c.connectLocked()
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

// try makes one attempt at each address until one succeeds, or the session that is to go on has ended.
func (c *Client) try(s *session) (*stream, error) {
	var failed error
	for range c.targets {
		c.mu.Lock()
		at := c.at
		c.mu.Unlock()
		st, err := c.tryAt(at, s)
		if err == nil {
			return st, nil
		}
		if failed == nil || permanent(failed) || s != nil && sessionGone(err) {
			failed = err
		}
		c.passOver(at)
		if c.ctx.Err() != nil || s != nil && (sessionGone(err) || errors.Is(err, errSessionOver)) {
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

// elsewhere has the next attempt begin with any other address than this one: those who leave a replica together are to
// spread over the others.
func (c *Client) elsewhere(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if others := len(c.targets) - 1; others > 0 {
		c.at = (at + 1 + rand.IntN(others)) % len(c.targets)
	}
}

// tryAt makes one attempt at one address.
func (c *Client) tryAt(at int, s *session) (*stream, error) {
	conn, err := c.settings.conn(c.targets[at])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	st := &stream{
		session: s, at: at, conn: conn, ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	what := "open a session"
	if s == nil {
		err = c.openOn(st)
	} else {
		what = "resume the session"
		err = c.resumeOn(st)
	}
	if err != nil {
		err = fmt.Errorf("%s at %s: %w", what, c.targets[at], err)
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", unavailable(cause), err)
		}
		st.discard(err)
		return nil, err
	}
	return st, nil
}

// discard ends a stream that was never used.
func (st *stream) discard(cause error) {
	if st.quiet != nil {
		st.quiet.Stop()
	}
	st.cancel(cause)
	st.hangUp()
}

// openOn opens a new session.
func (c *Client) openOn(st *stream) error {
	within := max(openTimeout/time.Duration(len(c.targets)), minOpenTimeout)
	st.epoch = 1
	opened, err := c.handshake(st, c.settings.open(), 1, within)
	if err != nil {
		return err
	}
	s := &session{
		client: c, id: opened.GetSessionId(), token: opened.GetResumeToken(), stream: st, epoch: st.epoch,
		done: make(chan struct{}), pending: make(map[uint64]*call), locks: make(map[holdKey]*Lock),
		opened: c.now(), ttl: st.ttl, nextID: 1, // that of Open
	}
	s.limits.Store(opened.GetLimits())
	s.alarm.ring, s.bell.alarm.ring = s.ring, s.bell.ring
	st.begin(s, s.nextID)
	return nil
}

// resumeOn goes on with a session. It connects first, because a session that is on another stream stands still from bid
// on. And a server that does not even connect is given up much sooner than one that has many sessions to take: a client
// that leaves its place there comes again.
func (c *Client) resumeOn(st *stream) error {
	s := st.session
	if err := c.reach(st, c.reachTimeout(s.ttl)); err != nil {
		return err
	}
	b, ok := s.bid()
	if !ok {
		return errSessionOver
	}
	defer s.unpark() // nothing to do after attach
	open := c.settings.open()
	open.Resume, st.epoch = b.resume, b.resume.GetEpoch()
	opened, err := c.handshake(st, open, b.resume.GetLastRequestId(), resumeTimeout(s.ttl))
	if err != nil {
		return err
	}
	st.begin(s, b.resume.GetLastRequestId())
	if !s.attach(st, b, opened) {
		return errSessionOver
	}
	return nil
}

func resumeTimeout(ttl time.Duration) time.Duration {
	return min(maxResumeTimeout, max(ttl/3, minResumeTimeout))
}

func (c *Client) reachTimeout(ttl time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := min(minOpenTimeout, max(ttl/6, minReachTimeout))
	return min(first<<min(c.unreached, 10), resumeTimeout(ttl))
}

// reach waits for the connection.
func (c *Client) reach(st *stream, within time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(c.ctx, within, errOpenTimeout)
	defer cancel()
	st.conn.Connect()
	for {
		switch state := st.conn.GetState(); {
		case state == connectivity.Ready:
			return nil
		case state == connectivity.TransientFailure:
			return ErrUnavailable
		case !st.conn.WaitForStateChange(ctx, state):
			c.mu.Lock()
			defer c.mu.Unlock()
			c.unreached++
			return unavailable(context.Cause(ctx))
		}
	}
}

// handshake opens the stream and sends Open on it, and waits for Opened.
func (c *Client) handshake(st *stream, open *lockdv1.Open, id uint64, within time.Duration) (*lockdv1.Opened, error) {
	bound := time.AfterFunc(within, func() { st.cancel(errOpenTimeout) })
	defer bound.Stop()
	stop := context.AfterFunc(c.ctx, func() { st.cancel(ErrClosed) })
	defer stop()

	rpc, err := lockdv1.NewSessionServiceClient(st.conn).Session(st.ctx, grpc.ForceCodecV2(wire.New()))
	if err != nil {
		return nil, FromStatus(err)
	}
	st.rpc = rpc
	st.beats.opened = c.now()
	// When sending fails Recv tells why.
	_ = rpc.Send(&lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Open{Open: open}})
	m, err := rpc.Recv()
	if err != nil {
		return nil, fromStream(err)
	}
	return st.greeted(m)
}

// greeted takes the server's first message.
func (st *stream) greeted(m *lockdv1.SessionResponse) (*lockdv1.Opened, error) {
	switch t := m.GetMessage().(type) {
	case *lockdv1.SessionResponse_Opened:
		st.batches = slices.Contains(t.Opened.GetFeatures(), lockdv1.Feature_FEATURE_BATCH)
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

// begin has the stream watched for silence.
func (st *stream) begin(s *session, openID uint64) {
	st.session, st.heardID = s, openID
	st.heard.Store(int64(s.client.now()))
	st.quiet = time.AfterFunc(st.patience(), st.listen)
}
