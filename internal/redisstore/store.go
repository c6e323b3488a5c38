package redisstore

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/dataloss"
	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/renew"
	"github.com/lockd-io/lockd/internal/redisstore/script"
	"github.com/lockd-io/lockd/internal/redisstore/sentinel"
	"github.com/lockd-io/lockd/internal/redisstore/watch"
)

// Store is a lock.Store in one Redis. Open makes one.
type Store struct {
	*script.Caller
	*renew.Renewer
	*watch.Lookout

	log         *zap.Logger
	forcedMark  string // what messages of forced releases in our database begin with
	database    int
	fewTogether int
	lastShared  atomic.Pointer[sharedKeys]
	connectTime time.Duration
	addr        string // of the server, or the name of the master for the sentinels

	dataLoss *dataloss.Detector // nil without Config.DetectDataLoss
	lister   *redis.Client      // what is listed
	hub      *hub.Hub
	guide    *sentinel.Guide // nil without sentinels
}

var _ lock.Store = (*Store)(nil)

// mostRenewals is how many calls for renewals are in a batch at most; four if each is for as many leases as possible. A
// probe waits for the batches that are under way.
const mostRenewals = 128

// quiet takes the place of go-redis's logger, which writes to standard error. All that it logs is also returned as an
// error.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// The logger of go-redis is a global without a mutex, so it has to be set before anything runs.
func init() { redis.SetLogger(quiet{}) }

// Open makes a Store. It fails if the configuration is wrong, or if Redis answers and cannot be used: a replica, or too
// old. While Redis cannot be reached, the Store is unavailable. m may be nil.
func Open(ctx context.Context, cfg Config, log *zap.Logger, m *Metrics) (*Store, error) {
	s, err := New(cfg, log, m)
	if err != nil {
		return nil, err
	}
	if err := s.firstCheck(ctx, cfg.WithDefaults().ConnectTimeout); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// New is Open without a first look at the server, which is one of several. Nothing is known of it until Probe.
func New(cfg Config, log *zap.Logger, m *Metrics) (*Store, error) {
	cfg = cfg.WithDefaults()
	if m == nil {
		m, _ = NewMetrics(nil) // which cannot fail
	}
	if err := layout.CheckPrefix(cfg.Prefix); err != nil {
		return nil, err
	}
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	log = log.Named("redis")
	guide := cfg.guide(o, log)
	s := &Store{
		Caller: &script.Caller{
			Scripts: script.NewScripts(&m.Metrics, cfg.Sharded), Prefix: cfg.Prefix, OpTimeout: cfg.OpTimeout,
			Metrics: &m.Metrics, FenceMillis: script.Millis(cfg.FenceTTL),
		},
		log:         log,
		guide:       guide,
		forcedMark:  "forced " + strconv.Itoa(o.DB) + " ",
		database:    o.DB,
		connectTime: cfg.ConnectTimeout,
		addr:        o.Addr,
		lister:      cfg.listingClient(*o), fewTogether: cfg.fewTogether,
	}
	if guide != nil {
		s.Demoted = guide.CutAll
	}
	t := pipe.NewTrouble(s.log, o.TLSConfig != nil)
	dialer := func(name string) pipe.Dialer {
		d := pipe.NewDialer(*o, name, cfg.ConnectTimeout, t)
		d.Scripts, d.Forgotten = s.Scripts.Texts(), m.Loads.Inc
		return d
	}
	usual := dialer("lockd")
	usual.Load, usual.Unended, usual.Hook = true, cfg.Unended, cfg.Hook
	if cfg.DetectDataLoss {
		s.dataLoss = dataloss.New(func() string { return layout.RunKey(cfg.DataKey()) }, s.log)
		usual.Meet = s.dataLoss.Meet
	}
	s.Shared = pipe.New(usual, pipe.Config{
		Timeout: s.OpTimeout, Most: pipe.MaxBatch,
		Fair: !cfg.oneTenant, CostFactor: script.CostFactor, Asking: cfg.Asking, Gather: s.gather, Replicas: cfg.Replicas,
	})
	steady := pipe.New(dialer("lockd-renew"), pipe.Config{
		Timeout: s.OpTimeout, Most: mostRenewals, Asking: cfg.Asking, Spares: 1,
	})
	heard := *o
	pipe.CheckReplies(&heard, pipe.OfChannels)
	hearing := hub.Config{Linger: cfg.Linger, Patience: cfg.HearTimeout, Metrics: m.hub}
	if cfg.Sharded {
		hearing.Sharded = layout.OfName
	}
	s.hub = hub.New(heard, hearing, s.log)
	s.Renewer = renew.New(s.Caller, renew.Config{
		Steady: steady, InSlots: cfg.InSlots, DataKey: cfg.DataKey, Restarts: m.restarts, Wait: cfg.Replicas > 0,
	}, s.log)
	s.Lookout = watch.New(s.Caller, s.hub, dialer("lockd-see"), s.forcedMark)
	return s, nil
}

// Waiting is how many operations wait to be sent, without renewals and probes.
func (s *Store) Waiting() int { return s.Shared.Waiting() }

// Connected says whether there is a connection for the operations that wait.
func (s *Store) Connected() bool { return s.Shared.Connected() }

// Share is how many of these operations a tenant has, and how many tenants have any.
func (s *Store) Share(tenant string) (its, tenants int) { return s.Shared.Share(tenant) }

// firstCheck fails if Redis answers and cannot be used.
func (s *Store) firstCheck(ctx context.Context, within time.Duration) error {
	for end := time.Now().Add(within); ; {
		_, err := s.Probe(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, renew.ErrUnfit) && (s.guide == nil || time.Now().After(end)): // else it may be replaced just now
			return err
		case errors.Is(err, pipe.ErrNotConnected) && !errors.Is(err, pipe.ErrWaited), ctx.Err() != nil, time.Now().After(end):
			s.log.Warn("redis cannot be reached yet", zap.Error(err))
			return nil //nolint:nilerr // it may be reached later
		}
	}
}

// Close ends all connections and waits for everything that uses them. Operations under way end with an error.
func (s *Store) Close() error {
	var wg sync.WaitGroup // a silent server is waited for once
	wg.Go(func() {
		s.Lookout.Close()
		s.hub.Close()
	})
	wg.Go(s.Shared.Close)
	wg.Go(s.Steady.Close)
	wg.Wait()
	if s.guide != nil {
		s.guide.Close()
	}
	if err := s.lister.Close(); !errors.Is(err, net.ErrClosed) { // a guide has already cut its connection
		return err
	}
	return nil
}
