package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"

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
	for c.pause() {
		s, wanted := c.wanted()
		if !wanted || c.attempt(s) {
			return
		}
	}
}

// wanted says whether there is still a reason to connect, and which session is to go on, if any.
func (c *Client) wanted() (s *session, wanted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s = c.session; {
	case c.closed:
		return nil, false
	case s == nil:
		return nil, true
	case !s.resumable(), c.open && !s.displaced():
		c.connecting = false
		return nil, false
	}
	return s, true
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
	if s != nil && (sessionGone(err) || permanent(err)) && !s.attached() {
		c.sessionOver(s, err)
		return c.attempt(nil) // at once
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
	failures, s := c.failures, c.session
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
	known, closed := c.session == s, c.closed
	c.wg.Go(st.read)
	c.wg.Go(st.write)
	if !closed {
		c.session, c.open = s, true
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
	c.mu.Lock()
	c.failures++
	if c.now()-st.beats.opened > instant(st.interval) { // after a success connecting begins without a pause
		c.failures = 0
	}
	c.mu.Unlock()
	if !keep {
		c.sessionOver(st.session, cause)
		return
	}
	c.tell(Status{State: Interrupted, Err: cause})
	c.elsewhere(st.at)
	c.move(st.session, true)
}

// sessionOver ends a session that is on no stream.
func (c *Client) sessionOver(s *session, cause error) {
	s.finish(cause)
	c.mu.Lock()
	known := c.session == s && !c.closed
	if known {
		c.session, c.open = nil, false
		c.connectLocked()
		c.changeLocked()
	}
	c.mu.Unlock()
	if known {
		c.tell(Status{State: Disconnected, Err: cause})
	}
}

// streamDraining has the session go on at another replica. If there is only one address, it waits for a part of the
// time that the server gives: others come from there, too.
func (c *Client) streamDraining(st *stream, within time.Duration) {
	c.elsewhere(st.at)
	c.tell(Status{State: Draining})
	if len(c.targets) > 1 || within <= 0 {
		c.move(st.session, false)
		return
	}
	time.AfterFunc(rand.N(within/4+1), func() { c.move(st.session, false) })
}

// streamSilent has the session go on at another replica: the one that it is at may stand still, or be cut off from
// here. The stream stays until then, and the session stays if the server is heard again before.
func (c *Client) streamSilent(st *stream) {
	st.session.mu.Lock()
	suspect := st.suspectLocked()
	st.session.mu.Unlock()
	if suspect {
		c.tell(Status{State: Interrupted, Err: ErrSilent})
		c.elsewhere(st.at)
		c.move(st.session, false)
	}
}

// move looks for another stream for a session. If closed is set the session takes no new requests until then.
func (c *Client) move(s *session, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session != s || c.closed {
		return
	}
	c.connectLocked()
	if closed && c.open {
		c.open = false
		c.changeLocked()
	}
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
	st := &stream{session: s, at: at, conn: conn, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1)}
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
		st.close(err)
		return nil, err
	}
	return st, nil
}

// openOn opens a new session.
func (c *Client) openOn(st *stream) error {
	within := attemptTimeout(c.settings.ttl)
	if err := c.reach(st, within); err != nil {
		return err
	}
	st.epoch = 1
	opened, err := c.handshake(st, c.settings.open(), 1, within)
	if err != nil {
		return err
	}
	s := &session{
		client: c, id: opened.GetSessionId(), token: opened.GetResumeToken(), stream: st, epoch: st.epoch,
		done: make(chan struct{}), pending: make(map[uint64]*call), holds: make(map[holdKey]*hold),
		opened: c.now(), ttl: st.ttl, nextID: 1, // that of Open
	}
	s.limits.Store(opened.GetLimits())
	s.alarm.ring = s.ring
	st.begin(s, s.nextID)
	return nil
}

// resumeOn goes on with a session. It connects first, because a session that is on another stream stands still from bid
// on.
func (c *Client) resumeOn(st *stream) error {
	s, within := st.session, attemptTimeout(st.session.ttl)
	if err := c.reach(st, within); err != nil {
		return err
	}
	b, ok := s.bid()
	if !ok {
		return errSessionOver
	}
	defer s.unpark() // nothing to do after attach
	open := c.settings.open()
	open.Resume, st.epoch = b.resume, b.resume.GetEpoch()
	opened, err := c.handshake(st, open, b.resume.GetLastRequestId(), within)
	if err != nil {
		return err
	}
	st.begin(s, b.resume.GetLastRequestId())
	if !s.attach(st, b, opened) {
		return errSessionOver
	}
	return nil
}

// reach connects. A server that does not even connect is given up sooner than an attempt: after a third of its time.
// That doubles with each attempt that it ended: where all clients of a replica come at once, connecting takes long, and
// each further attempt begins it again.
func (c *Client) reach(st *stream, within time.Duration) error {
	c.mu.Lock()
	within = min(within/3<<min(c.unreached, 2), within)
	c.mu.Unlock()
	return c.bounded(st, within, func() (err error) {
		st.rpc, err = lockdv1.NewSessionServiceClient(st.conn).Session(st.ctx, grpc.ForceCodecV2(wire.New()))
		if errors.Is(context.Cause(st.ctx), errOpenTimeout) {
			c.mu.Lock()
			c.unreached++
			c.mu.Unlock()
		}
		return FromStatus(err)
	})
}

// handshake sends Open and waits for Opened.
func (c *Client) handshake(st *stream, open *lockdv1.Open, id uint64, within time.Duration) (opened *lockdv1.Opened,
	err error,
) {
	err = c.bounded(st, within, func() error {
		st.beats.opened = c.now()
		// When sending fails Recv tells why.
		_ = st.rpc.Send(&lockdv1.SessionRequest{RequestId: id, Message: &lockdv1.SessionRequest_Open{Open: open}})
		m, err := st.rpc.Recv()
		if err != nil {
			return fromStream(err)
		}
		opened, err = st.greeted(m)
		return err
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

// begin has the stream watched for silence.
func (st *stream) begin(s *session, openID uint64) {
	st.session, st.heardID = s, openID
	st.heard.Store(int64(s.client.now()))
	st.beat = time.NewTicker(firstBeat(st.interval))
	st.quiet = time.AfterFunc(st.patience(), st.listen)
}
