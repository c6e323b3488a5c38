package pipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Dialer makes connections, each as a client of its own that never makes another one: making one has a time of its
// own, which may be longer than that of an operation when Redis is far away.
type Dialer struct {
	options redis.Options // without database and name
	db      int
	name    string
	timeout time.Duration // of making a connection, with all round trips
	trouble *Trouble      // is told of attempts

	Texts []string // of scripts, which each connection loads
	// looks at the server before anything is sent to it; nil if nobody does
	Meet func(ctx context.Context, c *redis.Client) error
	Hook redis.Hook // of tests
}

// NewDialer makes connections with a name, each within a time. The options may bring a Dialer, which then makes those
// for TCP and TLS.
func NewDialer(o redis.Options, name string, timeout time.Duration, t *Trouble) Dialer {
	d := Dialer{db: o.DB, name: name, timeout: timeout, trouble: t}
	o.DB, o.ClientName = 0, "" // go-redis would tell them in a round trip of its own
	o.PoolSize, o.PipelinePoolSize, o.MinIdleConns = 2, -1, 0
	o.ReadTimeout, o.WriteTimeout = timeout, timeout // of a batch: that of its ctx
	o.ConnMaxIdleTime, o.ConnMaxLifetime = -1, -1
	d.options = o
	return d
}

// Dial takes three or four round trips: for TCP, for HELLO with the password, for the database, and for the scripts.
// TLS takes one or two more. When ctx ends it is over at once, also if the server is silent.
func (d Dialer) Dial(ctx context.Context) (*redis.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, errSetupTimeout)
	defer cancel()
	o := d.options
	var dialed atomic.Bool
	var outlives func() bool // has the connection outlive ctx, unless that has ended
	o.Dialer = func(dialing context.Context, network, addr string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, ErrNotConnected
		}
		conn, err := d.reach(dialing, network, addr)
		if err == nil { // go-redis would go on waiting for an answer
			outlives = context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
	client := redis.NewClient(&o)
	err := d.greet(ctx, client)
	if err == nil && !outlives() {
		err = context.Cause(ctx)
	}
	if err == nil {
		if d.Hook != nil {
			client.AddHook(d.Hook)
		}
		d.trouble.over()
		return client, nil
	}
	_ = client.Close() // it can only be closed already
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil, fmt.Errorf("%w: %w", ErrNotConnected, d.trouble.note(err))
}

// reach makes the connection for TCP and TLS.
func (d Dialer) reach(ctx context.Context, network, addr string) (net.Conn, error) {
	// A little less than the time of all, so that it is known what took so long.
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout*9/10, errSetupTimeout)
	defer cancel()
	if d.options.Dialer == nil {
		return Wire{TLS: d.options.TLSConfig}.Dial(ctx, network, addr)
	}
	return d.options.Dialer(ctx, network, addr)
}

// errSetupTimeout is why making a connection was given up.
var errSetupTimeout = errors.New("the connection was not made in time")

// greet makes the connection, by asking for the database and telling our name. Then it loads the scripts, which would
// else cost the first callers more round trips; not at once, as Redis hangs up on one that says much before its
// password. A user may lack the rights for all but the database.
func (d Dialer) greet(ctx context.Context, client *redis.Client) error {
	db, name := redis.NewStatusCmd(ctx, "select", d.db), redis.NewStatusCmd(ctx, "client", "setname", d.name)
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		if d.db > 0 {
			_ = p.Process(ctx, db)
		}
		return p.Process(ctx, name)
	})
	if err != nil && (db.Err() != nil || !redis.IsPermissionError(name.Err())) {
		return err
	}
	if d.Meet != nil {
		if err := d.Meet(ctx, client); err != nil {
			return err
		}
	}
	if len(d.Texts) == 0 {
		return nil
	}
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, text := range d.Texts {
			_ = p.Process(ctx, redis.NewStringCmd(ctx, "script", "load", text))
		}
		return nil
	})
	if redis.IsPermissionError(err) {
		return nil
	}
	return err
}

// sender sends batches on a connection that it keeps.
type sender struct {
	p      *Pipeline
	client *redis.Client   // nil while there is no connection
	pipe   redis.Pipeliner // of the client
	coming chan dialed     // while one is being made
	pause  time.Duration   // before the next attempt
}

// dialed is the outcome of an attempt to connect.
type dialed struct {
	begun  time.Time
	client *redis.Client
	err    error
}

// run sends what is queued until the pipeline is closed. While there is no connection it makes one, whether or not
// anybody waits for it.
func (s *sender) run() {
	ctx, stop := context.WithCancel(context.Background())
	look := time.NewTicker(max(s.p.Timeout/lookParts, time.Millisecond))
	defer look.Stop()
	s.connect(ctx)
	for open := true; open; {
		if s.client != nil {
			_, open = <-s.p.wake
			s.sendAll(ctx)
			continue
		}
		select {
		case made := <-s.coming:
			s.made(ctx, made)
		case <-look.C:
			s.p.failWaited()
		case <-s.p.closing:
			open = false
		}
	}
	stop()
	s.hangUp()
	s.p.fail(time.Now().Add(time.Hour), ErrClosed) // what no sender could send
}

// connect begins to make a connection.
func (s *sender) connect(ctx context.Context) {
	s.coming = make(chan dialed, 1)
	coming, pause := s.coming, s.pause
	go func() {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		begun := time.Now()
		client, err := s.p.dialer.Dial(ctx)
		coming <- dialed{begun, client, err}
	}()
}

// made takes a connection over, or has the next one made. Those who wait need not wait for that.
func (s *sender) made(ctx context.Context, d dialed) {
	s.coming = nil
	if d.err != nil {
		s.p.refused(d.begun, d.err)
		s.pause = min(max(2*s.pause, firstRedial), lastRedial)
		s.connect(ctx)
		return
	}
	s.client, s.pipe, s.pause = d.client, d.client.Pipeline(), 0
	s.p.connected()
	s.sendAll(ctx)
}

// sendAll sends until nothing is left or the connection is lost.
func (s *sender) sendAll(ctx context.Context) {
	for s.client != nil {
		b := s.p.take()
		if len(b.jobs) == 0 {
			return
		}
		if !s.p.exec(s.pipe, &b) {
			s.hangUp()
			s.connect(ctx)
		}
		s.p.rest(&b)
	}
}

// hangUp ends the connection, also one that is being made.
func (s *sender) hangUp() {
	if s.coming != nil {
		s.client = (<-s.coming).client
	} else if s.client != nil {
		s.p.lost()
	}
	if s.client != nil {
		_ = s.client.Close() // it can only be closed already
	}
	s.client, s.coming = nil, nil
}
