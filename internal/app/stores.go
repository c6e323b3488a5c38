package app

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/cluster"
	"github.com/lockd-io/lockd/internal/redlock"
	"github.com/lockd-io/lockd/internal/settle"
	"github.com/lockd-io/lockd/internal/topology"
)

// backend is one Redis or one Redis Cluster.
type backend struct {
	redisstore.Config

	server topology.Server
	member bool // of a majority
}

// backends are where a configuration keeps leases: none for memory, and several for a majority. It reads the files that
// the configuration names.
func backends(c topology.Config) (all []backend, err error) {
	servers, err := c.Servers()
	if err != nil {
		return nil, err
	}
	member := c.Store.Kind == topology.Redlock
	for i, s := range servers {
		cfg, err := redisConfig(s, c.Redis)
		if err != nil && member {
			err = fmt.Errorf("member %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		cfg.DetectDataLoss = member && c.Redlock.Quarantine > 0
		all = append(all, backend{cfg, s, member})
	}
	return all, nil
}

// closing is a store that has connections.
type closing interface {
	lock.Store
	Close() error
}

// open opens the store. It fails if the store answers and cannot be used, but not for a member: a majority does without
// one. A server that is no node of a cluster will not become one: then the configuration is wrong.
func (b backend) open(log *zap.Logger, m *redisstore.Metrics) (s closing, err error) {
	ctx := context.Background()
	switch {
	case b.server.Kind == topology.Cluster:
		s, err = cluster.Open(ctx, cluster.Config{Node: b.Config, Addrs: b.server.Addrs}, log, m)
	case b.member:
		s, err = redisstore.New(b.Config, log, m)
	default:
		s, err = redisstore.Open(ctx, b.Config, log, m)
	}
	if errors.Is(err, cluster.ErrNoCluster) {
		err = fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, err
}

// openStore opens the place where leases live. A Redis that is away is no error.
func (a *App) openStore() (lock.Store, error) {
	all, err := backends(a.cfg.Config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if len(all) == 0 {
		a.log.Warn("leases live in the memory of this process: it must be the only replica, and its end frees every lock",
			zap.String(observe.KeyStore, topology.Memory))
		return memstore.New(), nil
	}
	m, err := redisstore.NewMetrics(a.reg)
	if err != nil {
		return nil, err
	}
	opened, err := a.openAll(all, m)
	if err != nil {
		return nil, fmt.Errorf("open the %s store: %w", a.cfg.Store.Kind, err)
	}
	// A majority waits for what is under way at its members, which ends when they are closed. A server that is silent
	// then is waited for as long as an operation may take.
	a.cleanups.add("store", closeTimeout+a.cfg.Redis.OpTimeout, func(context.Context) error { return closeAll(opened) })
	majority := a.cfg.Store.Kind == topology.Redlock
	stores, err := a.settled(opened, settle.Config{
		Node: a.cfg.Store.Kind, Member: majority, LongestLease: max(a.cfg.Limits.MaxLease, a.cfg.Session.MaxTTL),
	})
	if err != nil {
		return nil, err
	}
	if !majority {
		return stores[0], nil
	}
	c := a.cfg.Redlock
	s, err := redlock.New(redlock.Config{
		Names: c.Members, NodeTimeout: c.NodeTimeout, CallTimeout: a.cfg.Redis.ConnectTimeout, Quarantine: c.Quarantine,
	}, stores, a.log, a.reg)
	if err != nil {
		return nil, fmt.Errorf("open the %s store: %w", a.cfg.Store.Kind, err)
	}
	opened = append(opened, s)
	return s, a.meet(s)
}

// settled wraps stores, so that their unknown outcomes are settled. At the stop there is a moment for those that are
// left.
func (a *App) settled(inner []closing, cfg settle.Config) ([]lock.Store, error) {
	var all []*settle.Store
	var stores []lock.Store
	for i, in := range inner {
		var reg prometheus.Registerer = a.reg
		if cfg.Member {
			cfg.Node = a.cfg.Redlock.Members[i]
			reg = prometheus.WrapRegistererWith(prometheus.Labels{"member": cfg.Node}, reg)
		}
		s, err := settle.New(in, cfg, a.log, reg)
		if err != nil {
			return nil, err
		}
		all, stores = append(all, s), append(stores, s)
	}
	a.cleanups.add("settle", closeTimeout, func(ctx context.Context) error {
		return together(len(all), func(i int) error {
			all[i].Wait(ctx)
			all[i].Close()
			return nil
		})
	})
	return stores, nil
}

// openAll opens stores at the same time, all or none.
func (a *App) openAll(all []backend, m *redisstore.Metrics) ([]closing, error) {
	opened := make([]closing, len(all))
	err := together(len(all), func(i int) (err error) {
		log := a.log
		if all[i].member {
			log = log.With(zap.String(observe.KeyMember, a.cfg.Redlock.Members[i]))
		}
		if opened[i], err = all[i].open(log, m); err != nil {
			opened[i] = nil
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, closeAll(opened))
	}
	return opened, nil
}

func closeAll(stores []closing) error {
	return together(len(stores), func(i int) error {
		if stores[i] == nil {
			return nil
		}
		return stores[i].Close()
	})
}

var errSilentMember = errors.New("a member did not answer in time")

// meet refuses a server that would vote twice.
func (a *App) meet(s *redlock.Store) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 2*a.cfg.Redis.OpTimeout, errSilentMember)
	defer cancel()
	s.Meet(ctx)
	if a, b := s.SameServer(); a != "" {
		return fmt.Errorf("%w: redlock.members: %s and %s are the same server, and it would vote twice", ErrConfig, a, b)
	}
	return nil
}

// together makes n calls at the same time: servers that are silent are waited for once.
func together(n int, call func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
