package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// errOpTimeout is why an operation was given up.
var errOpTimeout = errors.New("redis did not answer in time")

// Store is a lock.Store in one Redis. Open makes one.
type Store struct {
	log         *zap.Logger
	metrics     *metrics
	scripts     scripts
	prefix      string
	forcedMark  string // what messages of forced releases in our database begin with
	database    int
	fenceMillis int64
	fenceText   string // the same
	fewTogether int
	opTimeout   time.Duration
	connectTime time.Duration

	hearer atomic.Int64 // Redis's number of the connection that hears

	shared *pipeline     // all operations
	steady *pipeline     // renewals and probes
	pipe   *redis.Client // what is listed
	hub    *hub
	scout  *scout

	data dataset

	mu       sync.Mutex // guards the fields below
	checked  string     // the run id of the server that passed the last check
	warnedOf string     // the run id of the server whose settings were warned of
}

var _ lock.Store = (*Store)(nil)

// quiet takes the place of go-redis's logger, which writes to standard error. All it says comes back as an error, too.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// The logger of go-redis is a global that is not guarded, so it has to be set before anything runs.
func init() { redis.SetLogger(quiet{}) }

// Open makes a Store. It fails if the configuration is wrong, or if Redis is there and cannot be used: a replica, or
// too old. If Redis cannot be reached, the Store is unavailable until it can. reg may be nil.
func Open(ctx context.Context, cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	o, err := cfg.options()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(reg)
	if err != nil {
		return nil, fmt.Errorf("register the metrics of redis: %w", err)
	}
	s := &Store{
		log: log.Named("redis"), metrics: m, scripts: newScripts(m), prefix: cfg.Prefix,
		forcedMark:  "forced " + strconv.Itoa(o.DB) + " ",
		database:    o.DB,
		fenceMillis: millis(cfg.FenceTTL), opTimeout: cfg.OpTimeout, connectTime: cfg.ConnectTimeout,
		pipe: cfg.listingClient(*o), fewTogether: cfg.fewTogether,
	}
	s.fenceText = strconv.FormatInt(s.fenceMillis, 10)
	t := &trouble{log: s.log, secure: o.TLSConfig != nil}
	usual := cfg.dialer(*o, "lockd", t)
	usual.texts, usual.hook = s.scripts.texts(), cfg.hook
	s.shared = newPipeline(usual, lanes{timeout: s.opTimeout, senders: senders, most: maxBatch, weigh: true, gather: s.gather})
	s.steady = newPipeline(cfg.dialer(*o, "lockd-renew", t), lanes{timeout: s.opTimeout, senders: cfg.PoolSize, most: maxSteady, spread: true})
	s.hub = newHub(cfg.hearingClient(*o, &s.hearer), cfg, s.log, m)
	s.scout = newScout(cfg.dialer(*o, "lockd-see", t), s)
	if err := s.firstCheck(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// firstCheck fails if Redis answers and cannot be used.
func (s *Store) firstCheck(ctx context.Context) error {
	for end := time.Now().Add(s.connectTime); ; {
		_, err := s.Probe(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errUnfit):
			return err
		case errors.Is(err, errNotConnected) && !errors.Is(err, errWaited), ctx.Err() != nil, time.Now().After(end):
			s.log.Warn("redis cannot be reached yet", zap.Error(err))
			return nil //nolint:nilerr // it may be reached later
		}
	}
}

// Close ends all connections and waits for everything that uses them. Operations under way get errors.
func (s *Store) Close() error {
	s.scout.close()
	s.hub.close()
	s.shared.close()
	s.steady.close()
	return s.pipe.Close()
}

// bounded gives ctx the time of one operation.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.opTimeout, errOpTimeout)
}
