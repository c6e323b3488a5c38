package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/certs"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/observe"
)

// endpoint is one of our addresses, by its keys of the configuration.
type endpoint struct {
	key     string // "listen"
	section string // "listen_tls"
	tls     config.TLS
}

// serving is the TLS of our addresses; each is nil without.
type serving struct{ clients, ops, admin *tls.Config }

// loadCerts reads the certificates of all addresses, and shows when they expire.
func (a *App) loadCerts(reg prometheus.Registerer) (s serving, err error) {
	to := []**tls.Config{&s.clients, &s.ops, &s.admin}
	for i, e := range endpoints(a.cfg) {
		if *to[i], err = e.load(a.log, reg); err != nil {
			return s, err
		}
	}
	return s, nil
}

// endpoints are those for clients, for probes and for operators.
func endpoints(c config.Config) [3]endpoint {
	return [...]endpoint{
		{"listen", "listen_tls", c.ListenTLS},
		{"ops_listen", "ops_tls", c.OpsTLS},
		{"admin_listen", "admin_tls", c.AdminTLS},
	}
}

// load is nil for an address without TLS.
func (e endpoint) load(log *zap.Logger, reg prometheus.Registerer) (*tls.Config, error) {
	expires := func() float64 { return 0 }
	var out *tls.Config
	if e.tls.Enabled() {
		server, err := certs.New(filesOf(e.tls), log.Named("tls").With(zap.String(observe.KeyEndpoint, e.key)))
		if err != nil {
			return nil, fmt.Errorf("%w: %s.%w", ErrConfig, e.section, err)
		}
		expires = func() float64 { return float64(server.Expires().Unix()) }
		out = server.TLS()
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "tls_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate of an address expires, in seconds since 1970; 0 without TLS.",
		ConstLabels: prometheus.Labels{"endpoint": e.key},
	}, expires))
	return out, nil
}

func filesOf(c config.TLS) certs.Files {
	f := certs.Files{Cert: c.CertFile, Key: string(c.KeyFile), ClientCA: c.ClientCAFile, MinVersion: tls.VersionTLS13}
	if c.MinVersion == "1.2" {
		f.MinVersion = tls.VersionTLS12
	}
	switch c.ClientCerts {
	case config.ClientCertsOptional:
		f.ClientCerts = tls.VerifyClientCertIfGiven
	case config.ClientCertsRequired:
		f.ClientCerts = tls.RequireAndVerifyClientCert
	}
	return f
}

// warnOfClearText says loudly which addresses others can reach and read. Of the one for probes only profiles matter.
func (a *App) warnOfClearText() {
	var open []string
	for _, e := range []struct {
		key string
		at  net.Listener
		tls config.TLS
	}{
		{"listen", a.listen, a.cfg.ListenTLS},
		{"admin_listen", a.admin, a.cfg.AdminTLS},
		{"ops_listen", a.profiles(), a.cfg.OpsTLS},
	} {
		if e.at != nil && !e.tls.Enabled() && !isLoopback(e.at.Addr()) {
			open = append(open, e.key)
		}
	}
	if len(open) > 0 {
		a.log.Warn("NO TLS: others can read and change what is said at these addresses; see docs/tls.md",
			zap.String(observe.KeyEndpoint, strings.Join(open, ", ")))
	}
}

// profiles is where profiles are served, nil if nowhere.
func (a *App) profiles() net.Listener {
	if a.ops == nil || !a.cfg.Ops.Pprof {
		return nil
	}
	return a.ops.listen
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
