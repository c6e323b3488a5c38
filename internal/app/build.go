package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/admission"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore"
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
	if err := a.bind(reg); err != nil {
		return err
	}
	store, err := a.openStore(reg)
	if err != nil {
		return err
	}
	keeper := watchdog.New[*broker.Lease](store, a.log, reg)
	a.cleanups.add("watchdog", closeTimeout, func(context.Context) error { keeper.Close(); return nil })

	a.broker = broker.New(brokerConfig(a.cfg), store, keeper, a.log, reg)
	a.cleanups.add("broker", a.share(), a.broker.Close)

	a.api = grpcapi.New(grpcConfig(a.cfg), a.broker, a.log, reg)
	a.cleanups.add("grpc", a.share(), func(ctx context.Context) error { a.api.Stop(ctx); return nil })
	a.cleanups.add("sessions", a.cfg.Shutdown.Timeout, a.drain)
	return nil
}

// bind opens the listeners. The one of probes is the first to open and the last to close.
func (a *App) bind(reg *prometheus.Registry) (err error) {
	if a.cfg.OpsListen != "" {
		l, err := listen("ops_listen", a.cfg.OpsListen)
		if err != nil {
			return err
		}
		a.ops = newOpsServer(l, opsHandler(a.cfg.Ops.Pprof, a.ready, reg), a.log)
		a.cleanups.add("ops", closeTimeout, a.ops.stop)
	}
	if a.cfg.AdminListen != "" {
		if a.admin, err = listen("admin_listen", a.cfg.AdminListen); err != nil {
			return err
		}
		a.closeLater("admin_listen", a.admin)
	}
	if a.listen, err = listen("listen", a.cfg.Listen); err != nil {
		return err
	}
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

// openStore opens the place where leases live. A Redis that is away is no error.
func (a *App) openStore(reg *prometheus.Registry) (lock.Store, error) {
	if a.cfg.Store.Kind == config.StoreMemory {
		a.log.Warn("leases live in the memory of this process: it must be the only replica, and its end frees every lock",
			zap.String(observe.KeyStore, config.StoreMemory))
		return memstore.New(), nil
	}
	cfg, err := redisConfig(a.cfg.Redis)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	store, err := redisstore.Open(context.Background(), cfg, a.log, reg)
	if err != nil {
		return nil, fmt.Errorf("open the Redis store: %w", err)
	}
	a.cleanups.add("store", closeTimeout, func(context.Context) error { return store.Close() })
	return store, nil
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
	l := c.Limits
	return broker.Config{
		Replica:       c.Replica,
		KeyPrefix:     c.Redis.Prefix,
		SessionTTL:    c.Session.TTL,
		MinSessionTTL: c.Session.MinTTL,
		MaxSessionTTL: c.Session.MaxTTL,
		HandoffBurst:  c.Broker.HandoffBurst,
		AnswerTime:    c.Redis.OpTimeout + answerMargin,
		Limits: broker.Limits{
			NameBytes:         l.NameBytes,
			HolderBytes:       l.HolderBytes,
			AnnotationBytes:   l.AnnotationBytes,
			FrameBytes:        l.FrameBytes,
			LocksPerSession:   l.LocksPerSession,
			WaitersPerSession: l.WaitersPerSession,
			WatchesPerSession: l.WatchesPerSession,
			QueueLength:       l.QueueLength,
			NamesPerAcquire:   l.NamesPerAcquire,
			Limits: admission.Limits{
				Sessions: l.Sessions, SessionsPerAddress: l.SessionsPerAddress,
				CallsPerAddress: l.CallsPerAddress, WaitsPerAddress: l.WaitsPerAddress,
			},
			MinLease: l.MinLease,
			MaxLease: l.MaxLease,
			MaxWait:  l.MaxWait,
		},
	}
}

// storeName is what GetStatus tells.
func storeName(kind string) string {
	if kind == config.StoreMemory {
		return "memory"
	}
	return "redis"
}

func grpcConfig(c config.Config) grpcapi.Config {
	return grpcapi.Config{
		FrameBytes:           c.Limits.FrameBytes,
		MaxConcurrentStreams: uint32(c.GRPC.MaxConcurrentStreams), // Validate bounds it
		Reflection:           c.GRPC.Reflection,
		KeepaliveTime:        c.GRPC.KeepaliveTime,
		KeepaliveTimeout:     c.GRPC.KeepaliveTimeout,
		KeepaliveMinTime:     c.GRPC.KeepaliveMinTime,
		DrainWindow:          c.Shutdown.DrainWindow,
		OpenTimeout:          openTimeout,
		Version:              Version,
		Store:                storeName(c.Store.Kind),
	}
}
