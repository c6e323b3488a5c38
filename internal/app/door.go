package app

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/origin"
)

const (
	// spareConnections are those that an address may have beyond two for each session, which is what a session has
	// while it moves from one stream to another.
	spareConnections = 1000
	// Probes, Prometheus and operators need few connections.
	fewConnections, fewOfOneAddress = 128, 32
	// spareFiles are kept for all but clients: for Redis, for the other addresses, for certificates.
	spareFiles = 512
)

// room is how many connections there may be at one of our addresses at a time. 0 is no limit.
type room struct {
	all, each int
	// makesRoom: who comes is let in also when it is full, and the oldest connection is closed for it, of the address
	// that has the most. So nobody who is quick, as a probe is, can be kept away by connections that stay.
	makesRoom bool
}

// roomForClients follows the limits of sessions. Clients must not take the last files of the process either: without
// any left, a connection to Redis that broke could not be made again.
func roomForClients(c config.Config, files int) room {
	l := c.Limits
	r := room{all: 2*l.Sessions + spareConnections}
	if files > 0 {
		r.all = min(r.all, max(files-spareFiles, files/2))
	}
	if l.SessionsPerAddress > 0 {
		r.each = 2*l.SessionsPerAddress + spareConnections
	}
	return r
}

// door is a listener that lets in so many. Whoever comes when there is no room is sent away at once, or makes room.
//
// It gives connections as they are, and looks itself which of them have ended: grpcapi makes others only of those of
// package net, and only from those gRPC reads without a buffer for each that is silent.
type door struct {
	net.Listener
	room
	log     *zap.Logger
	refused prometheus.Counter
	closed  prometheus.Counter // to make room
	seldom  observe.Seldom

	mu     sync.Mutex              // guards the fields below
	from   map[netip.Addr][]caller // by origin, oldest first
	inside int                     // of them, with those that have ended since the last look
	enough int                     // with so many it is looked again
	rested time.Time               // not before that
}

// caller is a connection.
type caller struct {
	net.Conn
	raw syscall.RawConn
}

const (
	// A look at all connections takes 0.1 us for each, and no more than a fiftieth of a processor.
	shortestRest = 10 * time.Millisecond
	restForLook  = 50
	// fewEnded are so many that nobody looks for them.
	fewEnded = 256
)

// doors count who came to our addresses, and who was sent away.
type doors struct {
	log     *zap.Logger
	reg     prometheus.Registerer
	refused *prometheus.CounterVec
	closed  *prometheus.CounterVec
}

func newDoors(log *zap.Logger, reg prometheus.Registerer) *doors {
	d := &doors{log: log, reg: reg, refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "lockd", Name: "connections_refused_total",
		Help: "Connections that were closed at once, as there were too many, by our address.",
	}, []string{"endpoint"}), closed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "lockd", Name: "connections_displaced_total",
		Help: "Connections that were closed to make room for one that came, by our address.",
	}, []string{"endpoint"})}
	reg.MustRegister(d.refused, d.closed)
	return d
}

// open is the door of one of our addresses, by its key of the configuration.
func (d *doors) open(key string, l net.Listener, r room) net.Listener {
	out := &door{
		Listener: l, room: r, from: make(map[netip.Addr][]caller), refused: d.refused.WithLabelValues(key),
		closed: d.closed.WithLabelValues(key),
		log:    d.log.With(zap.String(observe.KeyEndpoint, key)), enough: fewEnded,
	}
	d.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "connections", Help: "Open connections, by our address.",
		ConstLabels: prometheus.Labels{"endpoint": key},
	}, out.count))
	return out
}

// Accept is for servers.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if d.enter(c) {
			return c, nil
		}
		_ = c.Close() // whoever it is hears of it or not
		d.refused.Inc()
		if more, ok := d.seldom.Now(); ok {
			d.log.Warn("a connection was refused: there are too many", zap.String(observe.KeyPeer, c.RemoteAddr().String()),
				zap.Int(observe.KeyMore, more))
		}
	}
}

func (d *door) enter(c net.Conn) bool {
	address := origin.OfAddr(c.RemoteAddr())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside >= d.enough || d.fullLocked(address) {
		d.lookLocked()
	}
	if d.fullLocked(address) && d.makesRoom {
		d.makeRoomLocked(address)
	}
	if d.fullLocked(address) {
		return false
	}
	if tcp, ok := c.(syscall.Conn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			d.inside++
			d.from[address] = append(d.from[address], caller{c, raw})
		}
	}
	return true
}

func (d *door) fullLocked(address netip.Addr) bool {
	return d.all > 0 && d.inside >= d.all || d.each > 0 && len(d.from[address]) >= d.each
}

// makeRoomLocked closes the oldest connection of an address that has as many as it may, or else of the one that has the
// most. Of several, it is the one of the address that comes, or any.
func (d *door) makeRoomLocked(address netip.Addr) {
	most := address
	if len(d.from[address]) < d.each {
		for other, all := range d.from {
			if len(all) > len(d.from[most]) {
				most = other
			}
		}
	}
	all := d.from[most]
	if len(all) == 0 {
		return
	}
	_ = all[0].Close() // its server hears of it
	d.closed.Inc()
	d.from[most] = slices.Delete(all, 0, 1)
	d.inside--
}

// lookLocked forgets the connections that have ended, unless it did so just now.
func (d *door) lookLocked() {
	began := time.Now()
	if began.Before(d.rested) {
		return
	}
	d.inside = 0
	for address, all := range d.from {
		open := slices.DeleteFunc(all, hasEnded)
		if d.inside += len(open); len(open) == 0 {
			delete(d.from, address)
		} else {
			d.from[address] = open
		}
	}
	now := time.Now()
	d.enough, d.rested = 2*d.inside+fewEnded, now.Add(max(shortestRest, restForLook*now.Sub(began)))
}

// hasEnded says whether this side has closed a connection.
func hasEnded(c caller) bool { return c.raw.Control(func(uintptr) {}) != nil }

func (d *door) count() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lookLocked()
	return float64(d.inside)
}
