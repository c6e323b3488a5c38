package app

import (
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const (
	// spareConnections are those that an address may have beyond two for each session. A session has two while it moves
	// from one stream to another.
	spareConnections = 1000
	// httpConnections are those of all clients that come by HTTP.
	httpConnections = 5000
	// Probes, Prometheus and operators need few connections.
	fewConnections, fewOfOneAddress = 128, 32
	// spareFiles are kept for all but clients: for Redis, for the other addresses, for certificates.
	spareFiles = 512
)

// capacity is how many connections there may be at one of our addresses at a time. 0 is no limit.
type capacity struct {
	all, each int
	// makesRoom: when it is full, a new connection is let in, and the oldest one of the address that has the most is
	// closed for it. So connections that stay keep nobody away who is quick, such as a probe.
	makesRoom bool
	// ofIdle: only connections on which nothing is asked make room, those of the address that has the most of them. Their
	// server tells rests which these are.
	ofIdle bool
}

// capacityForClients follows the limits of sessions. Clients must not take the last files of the process either:
// without any left, a connection to Redis that broke could not be made again.
func capacityForClients(c config.Config, files int) capacity {
	l := c.Limits
	r := capacity{all: 2*l.Sessions + spareConnections}
	if files > 0 {
		r.all = min(r.all, max(files-spareFiles, files/2))
	}
	if l.SessionsPerAddress > 0 {
		r.each = 2*l.SessionsPerAddress + spareConnections
	}
	return r
}

// capacityForHTTP follows the limit of calls that may wait: there is one at a time on a connection. The connections
// take an eighth of the files at most; endpoints leaves capacityForClients the rest.
func capacityForHTTP(c config.Config, files int) capacity {
	r := capacity{all: httpConnections, makesRoom: true, ofIdle: true}
	if files > 0 {
		r.all = min(r.all, files/8)
	}
	if waits := c.Limits.WaitsPerAddress; waits > 0 {
		r.each = min(waits+spareConnections, max(1, r.all/2))
	}
	return r
}

// capacityForConsole is twice that of its open pages. All may come from one address: an ingress is one.
var capacityForConsole = capacity{all: 2048, each: 2048, makesRoom: true}

// openFiles is how many files this process may have open, 0 if that is not known.
func openFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, math.MaxInt32))
}

// listener lets in as many connections as its capacity says. If there is no room it closes the new one at once, or an
// old one.
type listener struct {
	net.Listener
	capacity
	log      *zap.Logger
	refused  prometheus.Counter
	closed   prometheus.Counter // to make room
	logLimit observe.LogLimiter

	mu   sync.Mutex // guards the fields below
	all  map[lock.Tenant]map[*accepted]struct{}
	idle map[lock.Tenant]int // of all
	n    int
	last uint64 // number of a connection
}

// accepted is a connection that was let in.
type accepted struct {
	net.Conn

	of      *listener
	address lock.Tenant
	number  uint64
	idle    bool // guarded by of.mu
}

// bounded bounds one of our addresses, by its key of the configuration.
func bounded(key string, l net.Listener, c capacity, log *zap.Logger, reg prometheus.Registerer) net.Listener {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "lockd", Name: name, Help: help, ConstLabels: prometheus.Labels{"endpoint": key},
		})
		reg.MustRegister(c)
		return c
	}
	out := &listener{
		Listener: l, capacity: c, all: make(map[lock.Tenant]map[*accepted]struct{}),
		idle: make(map[lock.Tenant]int),
		log:  log.With(zap.String(observe.KeyEndpoint, key)),
		refused: counter("connections_refused_total",
			"Connections that were closed at once, as there were too many, by our address."),
		closed: counter("connections_displaced_total",
			"Connections that were closed to make room for one that came, by our address."),
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "connections", Help: "Open connections, by our address.",
		ConstLabels: prometheus.Labels{"endpoint": key},
	}, out.count))
	return out
}

// Accept implements net.Listener. It closes connections for which there is no room.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in := l.enter(c); in != nil {
			return in, nil
		}
		_ = c.Close() // whoever it is hears of it or not
		l.refused.Inc()
		l.logLimit.Warn(l.log, "a connection was refused: there are too many",
			zap.Stringer(observe.KeyPeer, c.RemoteAddr()))
	}
}

// enter returns nil if there is no room.
func (l *listener) enter(c net.Conn) *accepted {
	address := limits.TenantAt(c.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fullLocked(address) && l.makesRoom {
		l.makeRoomLocked(address)
	}
	if l.fullLocked(address) {
		return nil
	}
	l.last++
	in := &accepted{Conn: c, of: l, address: address, number: l.last}
	if l.all[address] == nil {
		l.all[address] = make(map[*accepted]struct{})
	}
	l.all[address][in] = struct{}{}
	l.n++
	return in
}

func (l *listener) fullLocked(address lock.Tenant) bool {
	return l.capacity.all > 0 && l.n >= l.capacity.all || l.each > 0 && len(l.all[address]) >= l.each
}

// makeRoomLocked closes the oldest connection of this address if it has as many as it may, or else of the address that
// has the most. If several have the most it is this one, or else any.
func (l *listener) makeRoomLocked(address lock.Tenant) {
	many := func(of lock.Tenant) int {
		if l.ofIdle {
			return l.idle[of]
		}
		return len(l.all[of])
	}
	most := address
	if len(l.all[address]) < l.each {
		for other := range l.all {
			if many(other) > many(most) {
				most = other
			}
		}
	}
	var oldest *accepted
	for c := range l.all[most] {
		if (c.idle || !l.ofIdle) && (oldest == nil || c.number < oldest.number) {
			oldest = c
		}
	}
	if oldest == nil {
		return
	}
	l.leaveLocked(oldest)
	_ = oldest.Conn.Close() // its server hears of it
	l.closed.Inc()
}

// leaveLocked forgets a connection, unless that was done before.
func (l *listener) leaveLocked(c *accepted) {
	all := l.all[c.address]
	if _, in := all[c]; !in {
		return
	}
	delete(all, c)
	l.restsLocked(c, false)
	if len(all) == 0 {
		delete(l.all, c.address)
	}
	l.n--
}

// restsLocked notes whether nothing is asked on a connection.
func (l *listener) restsLocked(c *accepted, idle bool) {
	if c.idle == idle {
		return
	}
	c.idle = idle
	if idle {
		l.idle[c.address]++
	} else if l.idle[c.address]--; l.idle[c.address] == 0 {
		delete(l.idle, c.address)
	}
}

// rests is the ConnState of our HTTP servers: it notes which connections are idle. A connection is new or idle until a
// whole header has come.
func rests(c net.Conn, state http.ConnState) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	in, ok := c.(*accepted)
	if !ok {
		return
	}
	in.of.mu.Lock()
	defer in.of.mu.Unlock()
	if _, stays := in.of.all[in.address][in]; stays {
		in.of.restsLocked(in, state == http.StateIdle || state == http.StateNew)
	}
}

func (l *listener) count() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(l.n)
}

// Close implements net.Conn.
func (c *accepted) Close() error {
	c.of.mu.Lock()
	c.of.leaveLocked(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn lets gRPC's server wait for a silent connection without a buffer.
func (c *accepted) SyscallConn() (syscall.RawConn, error) {
	if socket, ok := c.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
