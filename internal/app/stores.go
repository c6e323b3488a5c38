package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/cluster"
	"github.com/lockd-io/lockd/internal/redlock"
)

// openStore opens the place where leases live. A Redis that is away is no error.
func (a *App) openStore(reg *prometheus.Registry) (lock.Store, error) {
	kind := a.cfg.Store.Kind
	if kind == config.StoreMemory {
		return a.openMemory(), nil
	}
	m, err := redisstore.NewMetrics(reg)
	if err != nil {
		return nil, err
	}
	if kind == config.StoreRedlock {
		return a.openMajority(m, reg)
	}
	s, err := a.openOne(kind, a.cfg.Redis, m)
	if err != nil {
		return nil, err
	}
	a.cleanups.add("store", a.storeTimeout(), func(context.Context) error { return s.Close() })
	return s, nil
}

// storeTimeout bounds the end of a store: a server that is silent then is waited for as long as an operation may take.
func (a *App) storeTimeout() time.Duration { return closeTimeout + a.cfg.Redis.OpTimeout }

func (a *App) openMemory() lock.Store {
	a.log.Warn("leases live in the memory of this process: it must be the only replica, and its end frees every lock",
		zap.String(observe.KeyStore, config.StoreMemory))
	return memstore.New()
}

// closing is a store that has connections.
type closing interface {
	lock.Store
	Close() error
}

// openOne opens a store that is one Redis or one Redis Cluster. It fails if that is there and cannot be used.
func (a *App) openOne(kind string, c config.Redis, m *redisstore.Metrics) (closing, error) {
	cfg, err := redisConfig(kind, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	var s closing
	if kind == config.StoreCluster {
		s, err = openCluster(cluster.Config{Node: cfg, Addrs: c.Cluster.Addrs}, a.log, m)
	} else {
		s, err = redisstore.Open(context.Background(), cfg, a.log, m)
	}
	if err != nil {
		return nil, fmt.Errorf("open the %s store: %w", kind, err)
	}
	return s, nil
}

// openCluster opens a cluster. A server that is no node of one will not become one: the configuration is wrong.
func openCluster(c cluster.Config, log *zap.Logger, m *redisstore.Metrics) (closing, error) {
	s, err := cluster.Open(context.Background(), c, log, m)
	if errors.Is(err, cluster.ErrNoCluster) {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, err
}

// openMember is openOne for a member of a majority, which does without one that cannot be used.
func (a *App) openMember(text string, m *redisstore.Metrics) (closing, error) {
	kind, one, err := a.cfg.Redis.Member(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	cfg, err := redisConfig(kind, one)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	cfg.Vouch = a.cfg.Redlock.Quarantine > 0
	log := a.log.With(zap.String(observe.KeyMember, text))
	if kind == config.StoreCluster {
		return openCluster(cluster.Config{Node: cfg, Addrs: one.Cluster.Addrs}, log, m)
	}
	return redisstore.New(cfg, log, m)
}

var errSilentMember = errors.New("a member did not answer in time")

// openMajority opens all members, at the same time, and the majority over them.
func (a *App) openMajority(m *redisstore.Metrics, reg *prometheus.Registry) (lock.Store, error) {
	c := a.cfg.Redlock
	opened, errs := make([]closing, len(c.Members)), make([]error, len(c.Members))
	var wg sync.WaitGroup
	for i, text := range c.Members {
		wg.Go(func() {
			if opened[i], errs[i] = a.openMember(text, m); errs[i] != nil {
				errs[i] = fmt.Errorf("member %d: %w", i+1, errs[i])
			}
		})
	}
	wg.Wait()
	var members []lock.Store
	var ends []func() error
	for i, s := range opened {
		if errs[i] == nil {
			members, ends = append(members, s), append(ends, s.Close)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, together(ends))
	}
	s, err := redlock.New(redlock.Config{
		Names: c.Members, NodeTimeout: c.NodeTimeout, CallTimeout: a.cfg.Redis.ConnectTimeout, Quarantine: c.Quarantine,
	}, members, a.log, reg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the %s store: %w", config.StoreRedlock, err), together(ends))
	}
	// The majority waits for what is under way at its members, which ends when they are closed.
	a.cleanups.add("store", a.storeTimeout(), func(context.Context) error { return together(append(ends, s.Close)) })
	ctx, cancel := context.WithTimeoutCause(context.Background(), 2*a.cfg.Redis.OpTimeout, errSilentMember)
	defer cancel()
	s.Meet(ctx)
	if a, b := s.SameServer(); a != "" {
		return nil, fmt.Errorf("%w: redlock.members: %s and %s are the same server, and it would vote twice", ErrConfig, a, b)
	}
	return s, nil
}

// together makes some calls at the same time: servers that are silent are waited for once.
func together(calls []func() error) error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
	}
	wg.Wait()
	return errors.Join(errs...)
}
