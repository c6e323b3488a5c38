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

// Dialer makes connections. Making one has a timeout of its own, longer than that of an operation, because Redis may be
// far away. go-redis makes it, by a client for this one connection, and does not use it afterwards.
type Dialer struct {
	options redis.Options // without database and name
	db      int
	name    string
	timeout time.Duration // of making a connection, with all round trips
	trouble *Trouble      // is told of attempts

	Scripts   map[string]string // the texts of all scripts, by their SHA-1
	Load      bool              // whether each connection loads them
	Forgotten func()            // is called when Redis does not know a script any more
	Unended   *Unended          // connections that each new one ends first; nil if no order is kept
	// Meet looks at the server before anything else is sent to it. It may be nil.
	Meet func(ctx context.Context, c *redis.Client) error
	Hook Hook // of tests
}

// NewDialer makes a Dialer for connections that Redis lists by name, each made within timeout. If o has a Dialer, that
// one makes the connections for TCP and TLS.
func NewDialer(o redis.Options, name string, timeout time.Duration, t *Trouble) Dialer {
	d := Dialer{db: o.DB, name: name, timeout: timeout, trouble: t}
	o.DB, o.ClientName = 0, "" // go-redis would tell them in a round trip of its own
	o.PoolSize, o.PipelinePoolSize, o.MinIdleConns = 2, -1, 0
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout = timeout, timeout, timeout // of a batch: that of its ctx
	o.ConnMaxIdleTime, o.ConnMaxLifetime = -1, -1
	d.options = o
	return d
}

// dial makes a connection for as many batches under way as window says. It takes three or four round trips: for TCP,
// for HELLO with the password, for the database, and for the scripts. TLS takes one or two more, and so does ending
// others. It ends with ctx at once, even if the server is silent.
func (d Dialer) dial(ctx context.Context, window int) (*conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout, errSetupTimeout)
	defer cancel()
	o := d.options
	var made net.Conn
	var outlives func() bool // ctx ends the connection no more; false if it has done so
	var dialed atomic.Bool
	o.Dialer = func(dialing context.Context, network, addr string) (net.Conn, error) {
		if dialed.Swap(true) {
			return nil, ErrNotConnected
		}
		c, err := d.reach(dialing, network, addr)
		if err == nil { // else go-redis would wait for an answer after ctx has ended
			made, outlives = c, context.AfterFunc(ctx, func() { _ = c.Close() })
		}
		return c, err
	}
	CheckReplies(&o, nil)
	client := redis.NewClient(&o)
	me, err := d.greet(ctx, client)
	if err == nil && !outlives() {
		err = context.Cause(ctx)
	}
	if err == nil {
		d.trouble.over()
		return newConn(made, me, d.Hook, window), made.SetDeadline(time.Time{})
	}
	_ = client.Close() // it can only be closed already
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return nil, fmt.Errorf("%w: %w", ErrNotConnected, d.trouble.note(err))
}

func (d Dialer) reach(ctx context.Context, network, addr string) (net.Conn, error) {
	// A little less than the whole time, so that the error says what took so long.
	ctx, cancel := context.WithTimeoutCause(ctx, d.timeout*9/10, errSetupTimeout)
	defer cancel()
	if d.options.Dialer == nil {
		return Wire{TLS: d.options.TLSConfig}.Dial(ctx, network, addr)
	}
	return d.options.Dialer(ctx, network, addr)
}

var errSetupTimeout = errors.New("the connection was not made in time")

// greet makes the connection, by asking for the database and telling our name. Then it ends earlier connections, and
// loads the scripts, which would else cost the first callers more round trips. This comes last, because Redis hangs up
// on a client that sends much before its password. A user may lack the rights for all but the database.
func (d Dialer) greet(ctx context.Context, client *redis.Client) (me self, err error) {
	db, name := redis.NewStatusCmd(ctx, "select", d.db), redis.NewStatusCmd(ctx, "client", "setname", d.name)
	id, info := redis.NewCmd(ctx, "client", "id"), redis.NewCmd(ctx, "info", "server")
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		if d.db > 0 {
			_ = p.Process(ctx, db)
		}
		_ = p.Process(ctx, name)
		if d.Unended != nil {
			_ = p.Process(ctx, id)
			_ = p.Process(ctx, info)
		}
		return nil
	})
	if db.Err() != nil || name.Val() == "" && !redis.IsPermissionError(name.Err()) {
		return me, err
	}
	if d.Unended != nil {
		for _, cmd := range []*redis.Cmd{id, info} {
			if err := cmd.Err(); err != nil && !errors.As(err, new(redis.Error)) {
				return me, err
			}
		}
		me = selfOf(info, id)
		if err := d.Unended.endAt(ctx, client, me); err != nil {
			return me, err
		}
	}
	if d.Meet != nil {
		if err := d.Meet(ctx, client); err != nil {
			return me, err
		}
	}
	if !d.Load {
		return me, nil
	}
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, text := range d.Scripts {
			_ = p.Process(ctx, redis.NewStringCmd(ctx, "script", "load", text))
		}
		return nil
	})
	if redis.IsPermissionError(err) {
		return me, nil
	}
	return me, err
}
