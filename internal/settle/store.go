package settle

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/btree"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// Config says how unknown outcomes are settled. A zero field is its default.
type Config struct {
	// Node is what Examine calls the store.
	Node string
	// Member says that the caller releases what it acquired in vain, as a majority does with its members. Then an
	// acquisition of unknown outcome is not made once more, because its release may be behind it already; and nothing
	// is released that nobody asked to release, because the majority may have granted it without this member.
	Member bool
	// Most bounds the pending releases; one tenant has a tenth of them. Default 100,000.
	Most int
	// UnderWay bounds the calls for pending releases that are made at a time. When the store is slow, the outcome of
	// very many calls is unknown at once; without a bound their releases would keep it from answering. Default 64.
	UnderWay int
	// LongestLease is how long a lease lasts at most. It is assumed of each lease that is released, because a release
	// does not say how long it lasts. Default 24 hours.
	LongestLease time.Duration
}

const (
	defaultMost     = 100_000
	defaultUnderWay = 64
	defaultLongest  = 24 * time.Hour
	// tenantPart is the part of all pending releases that one tenant may have.
	tenantPart = 10
	// keep is for how long a pending release is kept after its lease would have ended.
	keep = time.Hour
	// oldAfter is when Examine finds a pending release worth telling.
	oldAfter = time.Minute
)

// Store is a lock.Store that deals with the unknown outcomes of another one. New makes one.
type Store struct {
	lock.Store

	cfg Config
	log *zap.Logger
	pendingReleases
}

var (
	_ lock.Store    = (*Store)(nil)
	_ lock.Examiner = (*Store)(nil)
)

// New makes a Store. It does not close the inner one. reg may be nil.
func New(inner lock.Store, cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	cfg.Most, cfg.UnderWay = cmp.Or(cfg.Most, defaultMost), cmp.Or(cfg.UnderWay, defaultUnderWay)
	cfg.LongestLease = cmp.Or(cfg.LongestLease, defaultLongest)
	s := &Store{Store: inner, cfg: cfg, log: log.Named("settle")}
	s.all, s.of = make(map[key]*pendingRelease), make(map[string]int)
	s.due = btree.NewG(16, (*pendingRelease).before)
	s.unused.New = func() any {
		u := new(pendingRelease)
		u.answer = func(res lock.Returned, err error) { s.answered(u, res, err) }
		return u
	}
	if err := s.register(reg); err != nil {
		return nil, fmt.Errorf("register the metrics of settle: %w", err)
	}
	return s, nil
}

// Unwrap is the inner one, for lock.As.
func (s *Store) Unwrap() lock.Store { return s.Store }

// Examine implements lock.Examiner.
func (s *Store) Examine(ctx context.Context) []lock.Finding {
	var found []lock.Finding
	if e, ok := lock.As[lock.Examiner](s.Store); ok {
		found = e.Examine(ctx)
	}
	n, oldest := s.age(time.Now())
	if oldest < oldAfter {
		return found
	}
	return append(found, lock.Finding{
		Severity: lock.SeverityWarning, Check: "UNSETTLED", Node: s.cfg.Node,
		Detail: fmt.Sprintf("%d releases are not acknowledged yet, the oldest for %v", n, oldest.Round(time.Second)),
		Remedy: "see why the store does not answer. What is not released ends with its lease",
	})
}
