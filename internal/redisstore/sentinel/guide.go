package sentinel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

// lookEvery is how often the sentinels are asked where the master is while nothing happens.
const lookEvery = time.Second

// Config says who is asked, and how.
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
	news      chan struct{} // size 1: the master may have changed
	doubted   chan struct{} // size 1: the server is not the master any more
	ctx       context.Context
	cancel    context.CancelFunc
	wg        sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	links  map[*link]struct{}
	latest place     // the newest one heard of
	heard  time.Time // when it was heard the last time
}

// link is a connection to a server, from before it is made until it is closed.
type link struct {
	to  place
	ctx context.Context // ends with it
	cut context.CancelCauseFunc
}

// errMoved is why a connection was cut.
var errMoved = errors.New("another server is the master now")

// New makes a Guide, which begins to watch the sentinels at once.
func New(cfg Config, log *zap.Logger) *Guide {
	g := &Guide{
		Config: cfg, log: log, links: make(map[*link]struct{}),
		news: make(chan struct{}, 1), doubted: make(chan struct{}, 1),
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	for _, addr := range cfg.Addrs {
		s := g.client(addr)
		g.sentinels = append(g.sentinels, s)
		g.wg.Go(func() { g.hear(s) })
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

// Doubt cuts all connections, as the server they were made to turned out to be no master. It does not wait.
func (g *Guide) Doubt() { poke(g.doubted) }

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Dial makes a connection to the master, for TCP and TLS. It is for redis.Options, whose address it ignores.
func (g *Guide) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	to, err := g.find(ctx)
	if err != nil {
		return nil, err
	}
	l := g.begin(to)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	wire := pipe.Wire{TLS: g.TLS, Wrap: func(c net.Conn) net.Conn { return g.follow(l, c) }}
	c, err := wire.Dial(ctx, network, to.addr)
	if err != nil {
		g.end(l)
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

// begin notes a connection that is about to be made.
func (g *Guide) begin(to place) *link {
	l := &link{to: to}
	l.ctx, l.cut = context.WithCancelCause(g.ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.links[l] = struct{}{}
	return l
}

// end forgets a connection.
func (g *Guide) end(l *link) {
	l.cut(net.ErrClosed)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.links, l)
}

// follow has a connection closed when its link is cut.
func (g *Guide) follow(l *link, c net.Conn) net.Conn {
	context.AfterFunc(l.ctx, func() { _ = c.Close() })
	both, ok := c.(socket)
	if !ok { // no TCP
		return c
	}
	return &conn{socket: both, guide: g, link: l}
}

// socket is what go-redis looks into, to tell whether it is alive.
type socket interface {
	net.Conn
	syscall.Conn
}

// conn is a connection that a Guide may cut.
type conn struct {
	socket

	guide *Guide
	link  *link
}

// Close closes it.
func (c *conn) Close() error {
	c.guide.end(c.link)
	return c.socket.Close()
}

// watch cuts connections to what is not the master any more.
func (g *Guide) watch() {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	told := "" // the master that was logged last
	for {
		select {
		case <-g.ctx.Done():
			return
		case <-g.doubted:
			g.cutAll(func(place) bool { return true })
			continue
		case <-g.news:
		case <-look.C:
		}
		to, err := g.find(g.ctx)
		if err != nil {
			continue // who needs a connection says so
		}
		// An attempt to connect to the old one may still be under way, and be cut later.
		if g.cutAll(func(old place) bool { return old.addr != to.addr && old.epoch <= to.epoch }) && told != to.addr {
			told = to.addr
			g.log.Info("another server is the master", zap.String(observe.KeyAddr, to.addr))
		}
	}
}

// cutAll cuts the connections to some places, and says whether there were any.
func (g *Guide) cutAll(which func(place) bool) (some bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for l := range g.links {
		if which(l.to) {
			l.cut(errMoved)
			some = true
		}
	}
	return some
}

// hear listens to a sentinel for fail-overs. go-redis makes a new connection when one breaks; what was missed by then
// is seen by the next look.
func (g *Guide) hear(s *redis.Client) {
	sub := s.Subscribe(g.ctx, "+switch-master")
	defer func() { _ = sub.Close() }() // it can only be closed already
	messages := sub.Channel()
	for {
		select {
		case <-g.ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			if strings.HasPrefix(m.Payload, g.Master+" ") {
				poke(g.news)
			}
		}
	}
}
