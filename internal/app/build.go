package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/watchdog"
)

const (
	// openTimeout is how long a new stream may take to say Open.
	openTimeout = 5 * time.Second
	// closeTimeout bounds the steps of a stop that should take no time.
	closeTimeout = 2 * time.Second
)

// build makes the parts, inner ones first, and notes how each is closed.
func (a *App) build() error {
	a.cleanups.add("servers", closeTimeout, func(context.Context) error { a.servers.Wait(); return nil })
	reg := newRegistry()
	secure, err := a.loadCerts(reg)
	if err != nil {
		return err
	}
	if err := a.bind(reg, secure.ops); err != nil {
		return err
	}
	store, err := a.openStore(reg)
	if err != nil {
		return err
	}
	if err := a.beginGuard(store, reg); err != nil {
		return err
	}
	keeper := watchdog.New[*broker.Lease](store, a.log, reg)
	a.cleanups.add("watchdog", closeTimeout, func(context.Context) error { keeper.Close(); return nil })

	traces, err := a.trace()
	if err != nil {
		return err
	}
	core := brokerConfig(a.cfg)
	if traces != nil {
		core.Tracer = traces
	}
	a.broker = broker.New(core, store, keeper, a.log, reg)
	a.cleanups.add("broker", a.share(), a.broker.Close)

	api := grpcConfig(a.cfg)
	api.TLS, api.AdminTLS = secure.clients, secure.admin
	if traces != nil {
		api.Spans = traces.Spans()
	}
	if s, ok := store.(gate.Store); ok {
		api.Gate = gate.New(s, keeper.Late)
	}
	api.Examine = func(ctx context.Context) []lock.Finding {
		return append(a.examine(keeper.Late(), api.Gate.Shut()), examineStore(ctx, store)...)
	}
	a.api = grpcapi.New(api, a.broker, a.log, reg)
	a.cleanups.add("grpc", a.share(), func(ctx context.Context) error { a.api.Stop(ctx); return nil })
	a.cleanups.add("sessions", a.cfg.Shutdown.Timeout, a.drain)
	return nil
}

// bind opens the listeners. The one of probes is the first to open and the last to close.
func (a *App) bind(reg *prometheus.Registry, opsTLS *tls.Config) (err error) {
	bounded := newListeners(a.log, reg)
	few := room{all: fewConnections, each: fewOfOneAddress, makesRoom: true}
	if a.cfg.OpsListen != "" {
		l, err := listen("ops_listen", a.cfg.OpsListen)
		if err != nil {
			return err
		}
		l = bounded.open("ops_listen", l, few)
		a.ops = newOpsServer(l, opsHandler(a.cfg.Ops.Pprof, a.ready, reg), opsTLS, a.log)
		a.cleanups.add("ops", closeTimeout, a.ops.stop)
	}
	if a.cfg.AdminListen != "" {
		if a.admin, err = listen("admin_listen", a.cfg.AdminListen); err != nil {
			return err
		}
		a.admin = bounded.open("admin_listen", a.admin, few)
		a.closeLater("admin_listen", a.admin)
	}
	if a.listen, err = listen("listen", a.cfg.Listen); err != nil {
		return err
	}
	a.listen = bounded.open("listen", a.listen, roomForClients(a.cfg, openFiles()))
	a.closeLater("listen", a.listen)
	return nil
}

func listen(key, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("bind %s: %w", key, err)
	}
	return l, nil
}

// closeLater is for when the gRPC server, which closes the listener, never came to serve.
func (a *App) closeLater(name string, l net.Listener) {
	a.cleanups.add(name, closeTimeout, func(context.Context) error { _ = l.Close(); return nil })
}

// drain asks the clients to move and waits until all have, or the window is over. Sessions that are still here are
// then ended, which lets their streams return.
func (a *App) drain(ctx context.Context) error {
	window := a.cfg.Shutdown.DrainWindow
	a.api.NotServing()
	n := a.broker.Drain(window)
	a.log.Info("asked the sessions to move", zap.Int(observe.KeySessions, n), zap.Duration(observe.KeyWithin, window))
	over := time.NewTimer(window)
	defer over.Stop()
	select {
	case <-a.broker.Idle():
		return nil
	case <-over.C:
	case <-ctx.Done():
	}
	a.log.Warn("not all sessions moved; ending them")
	ctx, cancel := context.WithTimeoutCause(ctx, a.share(), errors.New("the sessions did not end in time"))
	defer cancel()
	return a.broker.Close(ctx)
}

// share is what one slow step may take of the time after the drain window. There are three: ending sessions, stopping
// gRPC, closing the broker.
func (a *App) share() time.Duration { return (a.cfg.Shutdown.Timeout - a.cfg.Shutdown.DrainWindow) / 4 }

// answerMargin is how much longer than a call of Redis a request may last that does not wait any more.
const answerMargin = 500 * time.Millisecond

func brokerConfig(c config.Config) broker.Config {
	if q := c.Redlock.Quarantine; c.Store.Kind == config.StoreRedlock && q > 0 {
		// A member that lost its data does not vote for so long, so no lease may last longer.
		c.Limits.MaxLease, c.Session.MaxTTL = min(c.Limits.MaxLease, q), min(c.Session.MaxTTL, q)
	}
	return broker.Config{
		Replica:      c.Replica,
		KeyPrefix:    c.Redis.Prefix,
		HandoffBurst: c.Broker.HandoffBurst,
		AnswerTime:   answerTime(c),
		Limits:       c.Limits,
		Session:      c.Session,
	}
}

// answerTime is how much longer than its wait a request lasts at most. Over several members it may take two rounds.
func answerTime(c config.Config) time.Duration {
	if c.Store.Kind == config.StoreRedlock {
		return 2*c.Redis.OpTimeout + answerMargin
	}
	return c.Redis.OpTimeout + answerMargin
}

func grpcConfig(c config.Config) grpcapi.Config {
	return grpcapi.Config{
		MaxConcurrentStreams: uint32(c.GRPC.MaxConcurrentStreams), // Validate bounds it
		Reflection:           c.GRPC.Reflection,
		KeepaliveTime:        c.GRPC.KeepaliveTime,
		KeepaliveTimeout:     c.GRPC.KeepaliveTimeout,
		KeepaliveMinTime:     c.GRPC.KeepaliveMinTime,
		DrainWindow:          c.Shutdown.DrainWindow,
		OpenTimeout:          openTimeout,
		Version:              Version,
		Store:                c.Store.Kind,
	}
}
