package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/observe"
)

// served is an endpoint with the connections that it may have.
type served struct {
	endpoint.Endpoint
	capacity capacity
}

// endpoints are where lockd listens.
func endpoints(c config.Config) (all [endpoint.Count]served) {
	few := capacity{all: fewConnections, each: fewOfOneAddress, makesRoom: true}
	files := openFiles()
	byHTTP := capacityForHTTP(c, files)
	if c.HTTPListen != "" {
		files = max(0, files-byHTTP.all)
	}
	capacities := [endpoint.Count]capacity{
		endpoint.Ops:     few,
		endpoint.Admin:   few,
		endpoint.Clients: capacityForClients(c, files),
		endpoint.HTTP:    byHTTP,
		endpoint.Console: capacityForConsole,
	}
	for i, e := range c.Endpoints() {
		all[i] = served{e, capacities[i]}
	}
	return all
}

// load reads the certificate of an address, and adds the metric of when it expires. out and until are nil without TLS.
func (e served) load(log *zap.Logger, reg prometheus.Registerer) (
	out *tls.Config, until func() time.Time, err error,
) {
	expires := func() float64 { return 0 }
	if e.TLS.Enabled() && e.Addr != "" {
		server, err := certs.New(e.TLS, log.Named("tls").With(zap.String(observe.KeyEndpoint, e.Key)))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %s.%w", ErrConfig, e.Section, err)
		}
		until = server.Expires
		expires = func() float64 { return float64(server.Expires().Unix()) }
		out = server.TLS()
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "tls_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate of an address expires, in seconds since 1970; 0 without TLS.",
		ConstLabels: prometheus.Labels{"endpoint": e.Key},
	}, expires))
	return out, until, nil
}

// listen opens an address; nil if there is none.
func (e served) listen(log *zap.Logger, reg prometheus.Registerer) (net.Listener, error) {
	if e.Addr == "" {
		return nil, nil
	}
	network, addr := "tcp", e.Addr
	if path, isSocket := strings.CutPrefix(e.Addr, endpoint.Socket); isSocket {
		network, addr = "unix", path
		removeAbandoned(path)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), network, addr)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", e.Key, err)
	}
	return bounded(e.Key, l, e.capacity, log, reg), nil
}

// removeAbandoned removes a socket on which nobody listens any more, as its process was killed. Files of other kinds
// refuse connections, too. They stay.
func removeAbandoned(path string) {
	file, err := os.Lstat(path)
	if err != nil || file.Mode().Type() != os.ModeSocket {
		return // if it is in the way, binding it says so
	}
	c, err := new(net.Dialer).DialContext(context.Background(), "unix", path)
	if err == nil {
		_ = c.Close() // it is in use
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path) // else binding it fails
	}
}

// warnOfClearText says loudly which addresses others can reach and read. That for probes matters only if it has
// profiles.
func (a *App) warnOfClearText() {
	var open []string
	for i, e := range endpoints(a.cfg) {
		l, harmless := a.listeners[i], i == endpoint.Ops && !a.cfg.Ops.Pprof
		if l != nil && !harmless && !e.TLS.Enabled() && !isLoopback(l.Addr()) {
			open = append(open, e.Key)
		}
	}
	if len(open) > 0 {
		a.log.Warn("NO TLS: others can read and change what is said at these addresses; see docs/tls.md",
			zap.String(observe.KeyEndpoint, strings.Join(open, ", ")))
	}
}

// warnOfNoIdentities says loudly where others may do everything, because nobody asks who they are.
func (a *App) warnOfNoIdentities() {
	var open []string
	for _, i := range []int{endpoint.Admin, endpoint.Clients, endpoint.HTTP} {
		if l := a.listeners[i]; l != nil && a.guard == nil && !isLoopback(l.Addr()) {
			open = append(open, endpoints(a.cfg)[i].Key)
		}
	}
	if len(open) > 0 {
		a.log.Warn("NO IDENTITIES: whoever reaches these addresses may do everything; see docs/security.md",
			zap.String(observe.KeyEndpoint, strings.Join(open, ", ")))
	}
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback() // else it is a socket of this machine
}
