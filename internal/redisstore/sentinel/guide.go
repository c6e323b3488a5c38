package sentinel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

// lookEvery is how often the sentinels are asked where the master is.
const lookEvery = time.Second

// Config says which sentinels to ask for which master, and how.
type Config struct {
	Master   string   // what the sentinels call it
	Addrs    []string // of the sentinels, host:port
	Username string   // for the sentinels
	// PasswordNow is asked for the password of each new connection. It is nil without a password.
	PasswordNow func() string
	TLS         *tls.Config   // for the sentinels and the servers; nil for plain text
	Timeout     time.Duration // of a question, with making a connection for it
}

// Guide makes connections to the master.
type Guide struct {
	Config

	log       *zap.Logger
	sentinels []*redis.Client
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	terms  map[place]term
	latest place     // the newest one that was heard of
	heard  time.Time // when it was heard the last time
}

// term is the time in which a server is used as the master. All connections to it end with its ctx, also those that are
// being made.
type term struct {
	ctx context.Context
	end context.CancelCauseFunc
}

// errMoved is why a connection was cut.
var errMoved = errors.New("another server is the master now")

// New makes a Guide, which begins to watch the sentinels at once.
func New(cfg Config, log *zap.Logger) *Guide {
	g := &Guide{Config: cfg, log: log, terms: make(map[place]term)}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for _, addr := range cfg.Addrs {
		g.sentinels = append(g.sentinels, g.client(addr))
	}
	g.wg.Go(g.watch)
	return g
}

// Close cuts all connections, and waits for everything that uses the sentinels.
func (g *Guide) Close() {
	g.cancel()
	for _, s := range g.sentinels {
		_ = s.Close() // it can only be closed already
	}
	g.wg.Wait()
}

// CutAll cuts all connections, because their server turned out to be no master. It does not wait.
func (g *Guide) CutAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endLocked(func(place) bool { return true })
}

// Dial makes a connection to the master, for TCP and TLS. It is for redis.Options, whose address it ignores.
func (g *Guide) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	to, err := g.find(ctx)
	if err != nil {
		return nil, err
	}
	served := g.term(to)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(served, func() { cancel(context.Cause(served)) })()
	wire := pipe.Wire{TLS: g.TLS, Wrap: func(c net.Conn) net.Conn { return endsWith(served, c) }}
	c, err := wire.Dial(ctx, network, to.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to the master %s: %w", to.addr, err)
	}
	return c, nil
}

// Greet checks that the server is a master. It is for redis.Options, to be called before a connection is used.
func (g *Guide) Greet(ctx context.Context, c *redis.Conn) error {
	role, err := c.Do(ctx, "role").Slice()
	if err != nil {
		return fmt.Errorf("ask the server for its role: %w", err)
	}
	if len(role) == 0 || role[0] != "master" {
		return errNoMaster
	}
	return nil
}

var errNoMaster = errors.New("the server that the sentinels call the master is a replica")

// term is the ctx of the term of the master at a place. The term begins with the first connection to it.
func (g *Guide) term(of place) context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	t, there := g.terms[of]
	if !there {
		t.ctx, t.end = context.WithCancelCause(g.ctx)
		g.terms[of] = t
	}
	return t.ctx
}

// endLocked ends the terms at some places, and says whether there were any.
func (g *Guide) endLocked(which func(place) bool) (some bool) {
	for at, t := range g.terms {
		if which(at) {
			t.end(errMoved)
			delete(g.terms, at)
			some = true
		}
	}
	return some
}

// endsWith has a connection closed when a ctx ends.
func endsWith(ctx context.Context, c net.Conn) net.Conn {
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	both, ok := c.(socket)
	if !ok { // no TCP
		return c
	}
	return &conn{both, stop}
}

// socket is what go-redis looks into, to tell whether it is alive.
type socket interface {
	net.Conn
	syscall.Conn
}

// conn is a connection that ends with a term.
type conn struct {
	socket

	stop func() bool // waiting for the end of the term
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.stop()
	return c.socket.Close()
}

func (g *Guide) watch() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-look.C:
			_, _ = g.find(g.ctx) // Dial returns the error to those who need a connection
		}
	}
}
