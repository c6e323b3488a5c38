package settle

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/btree"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// Config says how a store is settled. A zero field is its default.
type Config struct {
	// Node is what Examine calls the store.
	Node string
	// Member says that the caller releases what it acquired in vain, as a majority does with its members. An acquisition
	// of unknown outcome is not made once more then, as its release may be behind it already; and nothing is released
	// that nobody asked to be released, as the majority may have granted it without this member.
	Member bool
	// Most bounds the rows; one tenant has a tenth of them. Default 100,000.
	Most int
	// UnderWay bounds the calls for rows that are made at a time. When the store answers late the outcome of very much
	// is unknown at once; without a bound settling that would keep the store from answering. Default 64.
	UnderWay int
}

const (
	defaultMost     = 100_000
	defaultUnderWay = 64
	// tenantPart is the part of all rows that one tenant may have.
	tenantPart = 10
	// keep is for how long a row is kept after its lease would have ended.
	keep = time.Hour
	// oldAfter is when Examine finds a row worth telling.
	oldAfter = time.Minute
)

// Store is a lock.Store that settles what another one could not tell. New makes one.
type Store struct {
	lock.Store
	queuing
	fresh
	marked
	lock.Declarer

	examiner lock.Examiner
	cfg      Config
	log      *zap.Logger
	rows

	acquisitions, releases sync.Pool // of *acquisition and *release
}

var (
	_ lock.Store    = (*Store)(nil)
	_ lock.Examiner = (*Store)(nil)
)

// What a store may tell besides. It passes through; plain says it of a store that does not.
type (
	queuing interface {
		Waiting() int
		Share(session string) (its, all int)
	}
	fresh interface {
		Fresh() (since time.Time, fresh bool)
	}
	marked interface {
		Marked() bool
		Found(ctx context.Context) error
	}
	plain struct{}
)

func (plain) Waiting() int                           { return 0 }
func (plain) Share(string) (its, all int)            { return 0, 0 }
func (plain) Fresh() (since time.Time, fresh bool)   { return time.Time{}, false }
func (plain) Marked() bool                           { return false }
func (plain) Found(context.Context) error            { return nil }
func (plain) Examine(context.Context) []lock.Finding { return nil }

// Declare says that the text is kept: the store is shared with nobody.
func (plain) Declare(_ context.Context, text string, _ time.Duration) (string, error) {
	return text, nil
}

func (plain) Overlaps(context.Context, time.Duration) ([]string, error) { return nil, nil }

// as is a store as something that it may be, and else what it is otherwise.
func as[T any](s lock.Store, otherwise T) T {
	if t, ok := s.(T); ok {
		return t
	}
	return otherwise
}

// New makes a Store. It does not close the inner one. reg may be nil.
func New(inner lock.Store, cfg Config, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	cfg.Most, cfg.UnderWay = cmp.Or(cfg.Most, defaultMost), cmp.Or(cfg.UnderWay, defaultUnderWay)
	s := &Store{
		Store: inner, queuing: as[queuing](inner, plain{}), fresh: as[fresh](inner, plain{}),
		marked: as[marked](inner, plain{}), Declarer: as[lock.Declarer](inner, plain{}),
		examiner: as[lock.Examiner](inner, plain{}), cfg: cfg, log: log.Named("settle"),
	}
	s.all, s.of = make(map[key]*row), make(map[string]int)
	s.due = btree.NewG(16, (*row).before)
	s.acquisitions.New = func() any {
		a := &acquisition{s: s}
		a.answer = a.answered
		return a
	}
	s.releases.New = func() any {
		p := &release{s: s}
		p.answer = p.answered
		return p
	}
	if err := s.register(reg); err != nil {
		return nil, fmt.Errorf("register the metrics of settle: %w", err)
	}
	return s, nil
}

// Examine implements lock.Examiner.
func (s *Store) Examine(ctx context.Context) []lock.Finding {
	found := s.examiner.Examine(ctx)
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
