package redlock

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// Store is a lock.Store over a majority of members. New makes one.
type Store struct {
	cfg     Config
	log     *zap.Logger
	metrics *metrics
	members []*member
	quorum  int

	fences    fences
	vain      vain
	forced    forced
	health    health
	publisher atomic.Int32 // the member that took the last message
	restoring atomic.Int32 // holds that are being put back
	underWay  atomic.Int64 // calls of members, and goroutines that follow from them
	closed    atomic.Bool
}

var _ lock.Store = (*Store)(nil)

// New makes a Store. It does not close the members. reg may be nil.
func New(cfg Config, members []lock.Store, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	cfg, err := cfg.withDefaults(len(members))
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: log.Named("redlock"), quorum: len(members)/2 + 1}
	s.forced.began, s.forced.seed = time.Now(), maphash.MakeSeed()
	for i, m := range members {
		s.members = append(s.members, &member{Store: m, number: i, name: cfg.Names[i]})
	}
	s.health.identities = make([]string, len(members))
	if s.metrics, err = newMetrics(s, reg); err != nil {
		return nil, fmt.Errorf("register the metrics of redlock: %w", err)
	}
	return s, nil
}

// Close lets no more holds be put back, and waits for the members' answers, CallTimeout at most. It is an error if one
// is missing then.
func (s *Store) Close() error {
	s.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CallTimeout)
	defer cancel()
	if !s.calm(ctx) {
		return errors.New("close redlock: a member has not answered")
	}
	return nil
}

// calm waits until no call is under way, and says whether that is so before ctx ends.
func (s *Store) calm(ctx context.Context) bool {
	for s.underWay.Load() > 0 && ctx.Err() == nil {
		lock.Pause(ctx, fewPause)
	}
	return s.underWay.Load() == 0
}

// queuing may be implemented by a member: it says how many operations wait there.
type queuing interface {
	Waiting() int
	Share(session string) (its, all int)
}

// Waiting is how many operations wait at the members: the number that a majority does not exceed.
func (s *Store) Waiting() int { return s.asMajority(queuing.Waiting) }

// Share is how many of these a session has, likewise, and how many sessions have any at the member with most.
func (s *Store) Share(session string) (its, all int) {
	its = s.asMajority(func(q queuing) int {
		n, sessions := q.Share(session)
		all = max(all, sessions)
		return n
	})
	return its, all
}

// asMajority is the number that a majority of members does not exceed, 0 if fewer tell one.
func (s *Store) asMajority(of func(queuing) int) int {
	var told []int
	for _, m := range s.members {
		if q, ok := lock.As[queuing](m.Store); ok {
			told = append(told, of(q))
		}
	}
	if len(told) < s.quorum {
		return 0
	}
	slices.Sort(told)
	return told[s.quorum-1]
}

// decides is the error of a call that may not begin, see lock.Begin, or whose kind needs a single store.
func decides(ctx context.Context, kind lock.Kind) error {
	switch kind {
	case lock.Semaphore:
		return fmt.Errorf("a semaphore over several stores: %w", lock.ErrKindUnsupported)
	case lock.Fair:
		return fmt.Errorf("a fair lock over several stores: %w", lock.ErrKindUnsupported)
	default:
		return lock.Begin(ctx, kind)
	}
}

// about wraps an error with what was attempted; nil stays nil.
func about(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", what, name, err)
}

// each calls f for each member, in a goroutine of its own. Its ctx does not end with the caller's: what was begun is
// finished, within CallTimeout.
func (s *Store) each(ctx context.Context, f func(ctx context.Context, m *member)) {
	for _, m := range s.members {
		s.run(ctx, func(ctx context.Context) { f(ctx, m) })
	}
}

// run is each for one goroutine.
func (s *Store) run(ctx context.Context, f func(ctx context.Context)) {
	s.underWay.Add(1)
	go func() {
		defer s.underWay.Add(-1)
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.cfg.CallTimeout, errSlow)
		defer cancel()
		f(ctx)
	}()
}

var errSlow = errors.New("a member did not answer in time")
