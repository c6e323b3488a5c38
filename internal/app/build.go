package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/endpoint"
	"github.com/lockd-io/lockd/internal/gate"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/httpapi"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/topology"
	"github.com/lockd-io/lockd/internal/watchdog"
	"github.com/lockd-io/lockd/internal/web"
)

// closeTimeout bounds the steps of a stop that should take no time.
const closeTimeout = 2 * time.Second

// build makes the parts, inner ones first, and notes how each is closed.
func (a *App) build() error {
	if err := a.openGuard(); err != nil {
		return err
	}
	a.cleanups.add("servers", closeTimeout, func(context.Context) error { a.servers.Wait(); return nil })
	secure, err := a.bind()
	if err != nil {
		return err
	}
	store, err := a.openStore()
	if err != nil {
		return err
	}
	if err := a.beginGuard(store); err != nil {
		return err
	}
	keeper := watchdog.New[*broker.Lease](store, a.log, a.reg)
	a.cleanups.add("watchdog", closeTimeout, func(context.Context) error { keeper.Close(); return nil })

	traces, err := a.trace()
	if err != nil {
		return err
	}
	core := brokerConfig(a.cfg)
	if traces != nil {
		core.Tracer = traces.Tracer("github.com/lockd-io/lockd")
	}
	a.broker = broker.New(core, store, keeper, a.log, a.reg)
	a.cleanups.add("broker", a.share(), a.broker.Close)
	a.guard.OnChange(a.review)
	a.review()

	api := grpcConfig(a.cfg)
	api.TLS, api.AdminTLS, api.Guard = secure[endpoint.Clients], secure[endpoint.Admin], a.guard
	if traces != nil {
		api.Spans = traces
	}
	if s, ok := lock.As[gate.Store](store); ok {
		api.Gate = gate.New(s, keeper.Late)
	}
	api.Examine = func(ctx context.Context) []lock.Finding {
		found := a.examine(keeper.Late(), api.Gate.Shut())
		if s, ok := lock.As[lock.Examiner](store); ok {
			found = append(found, s.Examine(ctx)...)
		}
		return found
	}
	a.api = grpcapi.New(api, a.broker, a.log, a.reg)
	a.cleanups.add("grpc", a.share(), func(ctx context.Context) error { a.api.Stop(ctx); return nil })
	if err := errors.Join(a.offerHTTP(), a.offerConsole(api.Examine)); err != nil {
		return err
	}
	a.cleanups.add("sessions", a.cfg.Shutdown.Timeout, a.drain)
	return nil
}

// offerHTTP makes the server for clients that come by HTTP, if it has an address. It is stopped right before the gRPC
// server.
func (a *App) offerHTTP() error {
	if a.listeners[endpoint.HTTP] == nil {
		return nil
	}
	calls := a.api.Local()
	handler, err := httpapi.New(calls, a.broker.Limits(), isLoopback(a.listeners[endpoint.HTTP].Addr()))
	if err != nil {
		return fmt.Errorf("offer HTTP: %w", err)
	}
	a.web = web.NewServer("http_listen", handler, a.log)
	a.web.ConnState = rests
	a.stopWeb("http", a.web, calls.Stop)
	return nil
}

// stopWeb adds the stop of a server. The stop first calls end, which ends requests that would last.
func (a *App) stopWeb(name string, s *http.Server, end func()) {
	a.cleanups.add(name, closeTimeout, func(ctx context.Context) error {
		end()
		if err := s.Shutdown(ctx); err != nil {
			return s.Close() // it is late
		}
		return nil
	})
}

// review makes the broker apply the clients file that is in force to what clients have and do.
func (a *App) review() { a.broker.Review(a.guard.EndsHolds(), a.guard.Allowances()) }

// bind reads all certificates and opens the listeners. The gRPC server closes its own, unless it never served.
func (a *App) bind() (secure [endpoint.Count]*tls.Config, err error) {
	all := endpoints(a.cfg)
	for i, e := range all {
		if secure[i], a.expires[i], err = e.load(a.log, a.reg); err != nil {
			return secure, err
		}
	}
	for i, e := range all {
		l, err := e.listen(a.log, a.reg)
		switch {
		case err != nil:
			return secure, err
		case l == nil:
			continue
		case i == endpoint.Ops:
			if secure[i] != nil {
				l = tls.NewListener(l, secure[i])
			}
			a.ops = newOpsServer(opsHandler(a.cfg.Ops.Pprof, a.ready, a.reg), a.log)
			a.cleanups.add("ops", closeTimeout, a.stopOps)
		default:
			if (i == endpoint.HTTP || i == endpoint.Console) && secure[i] != nil {
				l = tls.NewListener(l, web.TLS(secure[i]))
			}
			a.cleanups.add(e.Key, closeTimeout, func(context.Context) error { _ = l.Close(); return nil })
		}
		a.listeners[i] = l
	}
	return secure, nil
}

// drain asks the clients to move and waits until all have, or the window is over. Sessions that are still here are
// then ended, which lets their streams return.
func (a *App) drain(ctx context.Context) error {
	window := a.cfg.Shutdown.DrainWindow
	a.api.NotServing()
	n := a.broker.Drain(window)
	a.log.Info("asked the sessions to move", zap.Int(observe.KeySessions, n), zap.Duration(observe.KeyWithin, window))
	select {
	case <-a.broker.Idle():
		return nil
	case <-time.After(window):
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

func brokerConfig(c config.Config) broker.Config {
	if q := c.Redlock.Quarantine; c.Store.Kind == topology.Redlock && q > 0 {
		// A member that lost its data does not vote for the time of quarantine, so no lease may last longer.
		c.Limits.MaxLease, c.Session.MaxTTL = min(c.Limits.MaxLease, q), min(c.Session.MaxTTL, q)
	}
	return broker.Config{
		Replica:      c.Replica,
		KeyPrefix:    c.Redis.Prefix,
		HandoffBurst: c.Broker.HandoffBurst,
		History:      c.History.Events,
		AnswerTime:   answerTime(c),
		Limits:       c.Limits,
		Session:      c.Session,
	}
}

// answerTime is how much longer than its wait a request lasts at most: one call of Redis, or two if there are several
// members, and half a call for lockd itself.
func answerTime(c config.Config) time.Duration {
	calls := c.Redis.OpTimeout
	if c.Store.Kind == topology.Redlock {
		calls *= 2
	}
	return calls + c.Redis.OpTimeout/2
}

func grpcConfig(c config.Config) grpcapi.Config {
	return grpcapi.Config{
		MaxConcurrentStreams: uint32(c.GRPC.MaxConcurrentStreams), // Validate bounds it
		Reflection:           c.GRPC.Reflection,
		KeepaliveTime:        c.GRPC.KeepaliveTime,
		KeepaliveTimeout:     c.GRPC.KeepaliveTimeout,
		KeepaliveMinTime:     c.GRPC.KeepaliveMinTime,
		DrainWindow:          c.Shutdown.DrainWindow,
		OpenTimeout:          5 * time.Second, // from a new stream to its Open
		Version:              Version,
		Store:                c.Store.Kind,
	}
}
