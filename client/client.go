package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// closeTimeout bounds Close; a tenth of it does if nothing is held or under way.
const closeTimeout = 2 * time.Second

// mostUntold is how many Statuses may wait for the function of WithOnStatus.
const mostUntold = 64

// State is the relation of a Client with the server.
type State string

// The states.
const (
	// Connected: a session was opened, or goes on.
	Connected State = "connected"
	// Disconnected: the session ended, and its locks with it. The Client opens a new one by itself.
	Disconnected State = "disconnected"
	// Interrupted: the stream broke, or nothing is heard on it. The Client goes on in another stream by itself; then it is
	// Connected again. Meanwhile each lock is held until its own deadline.
	Interrupted State = "interrupted"
	// Draining: the server asks its clients to leave. The session goes on at another one, with its locks; then it is
	// Connected again.
	Draining State = "draining"
	// AtRisk: the server cannot renew leases at the moment.
	AtRisk State = "at_risk"
	// Safe: the server can renew leases again.
	Safe State = "safe"
)

// Status is told to the function of WithOnStatus.
type Status struct {
	State State
	// ValidFor is set with AtRisk: how long all locks are still surely held.
	ValidFor time.Duration
	// Err is set with Disconnected and Interrupted: it says why.
	Err error
	// Session is set with Connected: the server's id of the session.
	Session string
	// TTL is what WithTTL or WithSessionTTL asked for, 0 if neither did.
	TTL time.Duration
}

// Client keeps one session with a server. It opens the session when it is first needed, goes on with it in another
// stream when its stream breaks, and opens a new one when it ends. All methods may be called from any goroutine.
type Client struct {
	addr     string   // as it was given to Dial
	opts     []Option // likewise
	targets  []string
	settings settings
	base     time.Time // instants count from here

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex                // guards the fields below and the session's; comes before those of endings
	watched    map[string]*watched       // by name
	ofTTL      map[time.Duration]*Client // those of WithTTL
	session    *session                  // nil while there is none
	open       bool                      // the session takes new requests
	connecting bool
	connectErr error         // of the last attempt to connect
	failures   int           // attempts or short streams in a row
	bears      instant       // until when refusals as ErrUnauthenticated are borne
	changed    chan struct{} // closed and replaced when a field above changes
	untold     []Status      // the first one is being told to the user
	closed     bool
	// The goroutine that connects owns these while there is one.
	at        int // which of targets is tried first
	unreached int // attempts in a row whose connection took too long
}

// Dial makes a Client for a server such as "lockd.example.com:7420", or for several replicas, separated by commas. The
// Client tries them in order, and one of the others first when the stream to one breaks or its server asks to leave.
// The port is 7420 if there is none, and an IPv6 address with a port is in brackets. An address with a scheme of gRPC,
// as dns:///HOST:PORT, is left as it is. Dial does not connect: the first use does. An error means a mistake in addr or
// opts, or in a file that they name.
func Dial(addr string, opts ...Option) (*Client, error) {
	targets, err := Addresses(addr, DefaultPort)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	c := &Client{
		addr: addr, opts: opts, targets: targets, base: time.Now(),
		changed: make(chan struct{}), watched: make(map[string]*watched),
	}
	c.settings.open.Features = []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH, lockdv1.Feature_FEATURE_RESUME}
	for _, o := range opts {
		o(&c.settings)
	}
	if err := c.settings.readable(); err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	if path := c.settings.tokenPath; path != "" {
		if c.settings.token, err = TokenCredentials(path); err != nil {
			return nil, fmt.Errorf("dial %q: %w", addr, err)
		}
	}
	c.settings.answerWithin = cmp.Or(min(max(c.settings.answerWithin, 0), longest), DefaultAnswerTimeout)
	c.settings.connectWait = min(c.settings.connectWait, longest)
	for _, target := range targets {
		conn, err := c.settings.conn(target)
		if err != nil {
			return nil, fmt.Errorf("dial %q: %w", target, err)
		}
		_ = conn.Close() // it was only made to find mistakes in the address and the options
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close releases all locks and ends the session, also those of the Clients of WithTTL. It waits up to 2 s for the
// server to confirm that, or 0.2 s if nothing is held or under way. If something was, and no confirmation comes, it
// returns ErrOutcomeUnknown, and the leases end by themselves.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	s := c.session
	others := slices.Collect(maps.Values(c.ofTTL))
	c.endWatchesLocked(nil)
	c.changeLocked()
	c.mu.Unlock()
	c.cancel()
	closing := make(chan error) // side by side: each may take its 2 s
	for _, other := range others {
		go func() { closing <- other.Close() }()
	}
	released := s == nil || s.leave()
	c.wg.Wait()
	var err error
	if !released {
		err = fmt.Errorf("close: %w", ErrOutcomeUnknown)
	}
	for range others {
		err = cmp.Or(err, <-closing)
	}
	return err
}

// now reads the monotonic clock.
func (c *Client) now() instant { return instant(time.Since(c.base)) }

// tellLocked has the user told in a goroutine of its own: so the user's function may call Close.
func (c *Client) tellLocked(st Status) {
	if c.settings.onStatus == nil {
		return
	}
	st.TTL = c.settings.open.GetSessionTtl().AsDuration()
	if len(c.untold) == mostUntold { // the first one is being told, and that does not return
		c.untold = slices.Delete(c.untold, 1, 2)
	}
	c.untold = append(c.untold, st)
	if len(c.untold) == 1 {
		go c.tellAll()
	}
}

// tellAll tells all of untold. The first one stays there while it is told, so that no second goroutine is started.
func (c *Client) tellAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.untold) > 0 {
		st := c.untold[0]
		c.mu.Unlock()
		c.settings.telling <- struct{}{}
		if c.ctx.Err() == nil {
			c.settings.onStatus(st)
		}
		<-c.settings.telling
		c.mu.Lock()
		c.untold = c.untold[1:]
	}
}

func (c *Client) changeLocked() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// usable returns the session that takes new requests, and has one opened if there is none. It waits for that: a patient
// caller until ctx ends, others until an attempt to connect has failed, all within the bounds of t.until and
// WithConnectWait.
func (c *Client) usable(ctx context.Context, t *terms) (*session, error) {
	var timeout <-chan time.Time
	late := t.late
	c.mu.Lock()
	defer c.mu.Unlock()
	for waited := false; ; waited = true {
		switch {
		case c.closed:
			return nil, ErrClosed
		case c.open:
			return c.session, nil
		case c.connectErr != nil && (c.connecting && !t.patient || !c.connecting && waited):
			return nil, unavailable(c.connectErr)
		}
		c.connectLocked()
		if !waited {
			bound := c.until(t.until)
			if d := c.settings.connectWait; d > 0 && (bound == 0 || d < bound) {
				bound, late = d, ErrUnavailable
			}
			if bound > 0 {
				timeout = time.After(bound)
			}
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
			c.mu.Lock()
			continue
		case <-ctx.Done():
			late = ended(ctx)
		case <-timeout:
		}
		c.mu.Lock()
		if c.connectErr != nil && !errors.Is(late, ErrUnavailable) {
			return nil, fmt.Errorf("%w: %w", late, unavailable(c.connectErr))
		}
		return nil, cmp.Or(unavailable(c.connectErr), late)
	}
}

// unavailable makes an error ErrUnavailable, too, unless it is permanent.
func unavailable(err error) error {
	if err == nil || permanent(err) || errors.Is(err, ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
