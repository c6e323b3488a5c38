// Package app puts lockd together: it builds every part from a Config, runs them, and closes them in reverse order.
//
// # What it promises
//
// After New the addresses are bound and known. Run serves until its ctx ends, then stops within shutdown.timeout:
// first the probes say no, then clients are asked to move, then the parts are closed, each within a bound of its own.
// The HTTP server for operators lives longest, so that the stop itself can be watched. Redis need not be there at the
// start: lockd then runs, says so at /readyz, and is ready when Redis comes.
//
// # What it does not promise
//
// A stop does not release the locks of clients that did not move, unless they asked for a release: their holders may
// still be at work. Those leases end by themselves.
package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/agreement"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/internal/session"
)

// App is lockd, ready to run. It runs once.
type App struct {
	cfg       config.Config
	log       *zap.Logger
	reg       *prometheus.Registry
	guard     *security.Guard // nil without a clients file
	broker    *broker.Broker
	api       *grpcapi.Server
	ops       *http.Server         // nil if nobody listens there
	web       *http.Server         // nil if nobody listens there
	console   *http.Server         // nil if nobody listens there
	agreement *agreement.Agreement // nil if the store is not shared
	// Of endpoint.Ops and so on; nil where nobody listens.
	listeners [endpoint.Count]net.Listener
	expires   [endpoint.Count]func() time.Time // when their certificates do; nil without TLS

	stopping atomic.Bool
	failed   chan error     // the first part that ended by itself
	servers  sync.WaitGroup // the goroutines of serve
	cleanups cleanups
}

// New builds everything and binds the addresses. After an error nothing is left behind; else Run must follow.
func New(cfg config.Config, log *zap.Logger) (*App, error) {
	a := &App{cfg: cfg, log: log, reg: newRegistry(), failed: make(chan error, 1)}
	if a.cfg.Replica == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("find a name for this replica: %w", err)
		}
		a.cfg.Replica = host
	}
	if err := a.build(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// Addr is where clients connect.
func (a *App) Addr() string { return a.addr(endpoint.Clients) }

// OpsAddr is where metrics and probes are, "" if nowhere.
func (a *App) OpsAddr() string { return a.addr(endpoint.Ops) }

// AdminAddr is where operators connect, "" if nowhere.
func (a *App) AdminAddr() string { return a.addr(endpoint.Admin) }

// HTTPAddr is where clients connect by HTTP, "" if nowhere.
func (a *App) HTTPAddr() string { return a.addr(endpoint.HTTP) }

// ConsoleURL is where the console is, "" if nowhere.
func (a *App) ConsoleURL() string {
	switch at := a.addr(endpoint.Console); {
	case at == "" || strings.HasPrefix(at, endpoint.Socket):
		return at
	case a.cfg.ConsoleTLS.Enabled():
		return "https://" + at + a.cfg.Console.Path + "/"
	default:
		return "http://" + at + a.cfg.Console.Path + "/"
	}
}

func (a *App) addr(i int) string {
	if a.listeners[i] == nil {
		return ""
	}
	addr := a.listeners[i].Addr()
	if addr.Network() == "unix" {
		return endpoint.Socket + addr.String()
	}
	return addr.String()
}

// Run serves until ctx ends or a part fails, then stops everything. It returns what went wrong, nil after a clean stop.
func (a *App) Run(ctx context.Context) error {
	tuneGC(a.broker.HistoryBytes)
	if a.ops != nil {
		a.serve("ops", func() error { return a.ops.Serve(a.listeners[endpoint.Ops]) })
	}
	a.serve("grpc", func() error { return a.api.Serve(a.listeners[endpoint.Clients]) })
	if l := a.listeners[endpoint.Admin]; l != nil {
		a.serve("operators", func() error { return a.api.ServeAdmin(l) })
	}
	if l := a.listeners[endpoint.HTTP]; l != nil {
		a.serve("http", func() error { return a.web.Serve(l) })
	}
	if l := a.listeners[endpoint.Console]; l != nil {
		a.serve("console", func() error { return a.console.Serve(l) })
	}
	a.log.Info("lockd serves", zap.String(observe.KeyListen, a.Addr()), zap.String(observe.KeyOpsListen, a.OpsAddr()),
		zap.String(observe.KeyAdminListen, a.AdminAddr()), zap.String(observe.KeyHTTPListen, a.HTTPAddr()),
		zap.String(observe.KeyConsole, a.ConsoleURL()), zap.String(observe.KeyReplica, a.cfg.Replica),
		zap.String(observe.KeyStore, a.cfg.Store.Kind), zap.String(observe.KeyVersion, Version))
	a.warnOfClearText()
	a.warnOfNoIdentities()
	var failure error
	select {
	case <-ctx.Done():
		a.log.Info("lockd stops", zap.NamedError(observe.KeyCause, context.Cause(ctx)))
	case failure = <-a.failed:
		a.log.Error("lockd stops", zap.NamedError(observe.KeyCause, failure))
	}
	began := time.Now()
	err := errors.Join(failure, a.close())
	a.log.Info("lockd stopped", zap.Duration(observe.KeyTook, time.Since(began)), zap.Error(err))
	return err
}

// serve runs a part that should not end before the stop.
func (a *App) serve(name string, run func() error) {
	a.servers.Go(func() {
		if err := run(); err != nil && !a.stopping.Load() {
			a.fail(fmt.Errorf("serve %s: %w", name, err))
		}
	})
}

// fail ends Run. The first failure is the one that counts.
func (a *App) fail(err error) {
	select {
	case a.failed <- err:
	default:
	}
}

// close undoes everything that was built, last first, within shutdown.timeout.
func (a *App) close() error {
	a.stopping.Store(true)
	ctx, cancel := context.WithTimeoutCause(context.Background(), a.cfg.Shutdown.Timeout,
		errors.New("shutdown.timeout is over"))
	defer cancel()
	return a.cleanups.run(ctx)
}

// ready is nil when clients should come here.
func (a *App) ready() error {
	if a.stopping.Load() {
		return session.ErrDraining
	}
	return a.broker.Ready()
}
