package app

import (
	"net"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/observe"
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
type room struct{ all, each int }

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

// door is a listener that lets in so many. Whoever comes when there is no room is sent away at once.
type door struct {
	net.Listener
	room
	log     *zap.Logger
	refused prometheus.Counter
	seldom  observe.Seldom

	mu     sync.Mutex // guards the fields below
	inside int
	from   map[string]int // by IP address; those without one count as one
}

// doors count who came to our addresses, and who was sent away.
type doors struct {
	log     *zap.Logger
	reg     prometheus.Registerer
	refused *prometheus.CounterVec
}

func newDoors(log *zap.Logger, reg prometheus.Registerer) *doors {
	d := &doors{log: log, reg: reg, refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "lockd", Name: "connections_refused_total",
		Help: "Connections that were closed at once, as there were too many, by our address.",
	}, []string{"endpoint"})}
	reg.MustRegister(d.refused)
	return d
}

// open is the door of one of our addresses, by its key of the configuration.
func (d *doors) open(key string, l net.Listener, r room) net.Listener {
	out := &door{
		Listener: l, room: r, from: make(map[string]int), refused: d.refused.WithLabelValues(key),
		log: d.log.With(zap.String(observe.KeyEndpoint, key)),
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
		address := addressOf(c.RemoteAddr())
		if d.enter(address) {
			return &visitor{Conn: c, leave: sync.OnceFunc(func() { d.leave(address) })}, nil
		}
		_ = c.Close() // whoever it is hears of it or not
		d.refused.Inc()
		if more, ok := d.seldom.Now(); ok {
			d.log.Warn("a connection was refused: there are too many", zap.String(observe.KeyPeer, c.RemoteAddr().String()),
				zap.Int(observe.KeyMore, more))
		}
	}
}

func (d *door) enter(address string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all > 0 && d.inside >= d.all || d.each > 0 && d.from[address] >= d.each {
		return false
	}
	d.inside++
	d.from[address]++
	return true
}

func (d *door) leave(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside--
	if d.from[address]--; d.from[address] == 0 {
		delete(d.from, address)
	}
}

func (d *door) count() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return float64(d.inside)
}

// visitor is a connection that leaves when it is closed.
type visitor struct {
	net.Conn
	leave func()
}

// Close is for servers.
func (v *visitor) Close() error {
	defer v.leave()
	return v.Conn.Close()
}

func addressOf(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return ""
	}
	return at.Addr().Unmap().WithZone("").String()
}
