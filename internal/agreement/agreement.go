// Package agreement has all replicas of lockd keep the same locks in the same way.
//
// Two replicas that keep the same locks in different places, such as in different sets of masters, would both grant one
// lock. So each declares in the store how it is configured. The declaration that is there already, and is repeated,
// counts.
//
// # What it promises
//
// A replica that differs does not begin to serve, if the store can be reached. One that serves already goes on: it
// holds leases, and ending them would not help. It reports the difference in its log and its metric.
//
// If the prefixes of replicas overlap, they share some names by accident. Each reports the other.
//
// # What it does not promise
//
// Replicas with the same name are reported, and go on. Replicas that have no server in common do not learn of each
// other. A declaration is forgotten a minute (Lasts) after the last replica made it; leases of its clients may last
// longer.
package agreement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/peers"
)

const (
	// Lasts is for how long a declaration is kept that nobody repeats.
	Lasts = time.Minute
	// every is how often it is repeated. It may fail a few times.
	every = Lasts / 6
	// soon is how often until the store has agreed: lockd serves meanwhile.
	soon = every / 10
	// within bounds a call.
	within = every / 2
)

// ErrDiffers: other replicas keep the same locks in another way.
var ErrDiffers = errors.New("other replicas of lockd keep the locks of this store in another way")

// Replica is what a replica tells the others of itself.
type Replica struct {
	Text string // how it keeps locks
	Name string
	ID   string // of this process, never the same again
	// Clients tells which clients file it has in force, at any time. It may be nil.
	Clients func() string
}

// clients is which clients file it has; empty if it has none.
func (r Replica) clients() string {
	if r.Clients == nil {
		return ""
	}
	return r.Clients()
}

// Store is where replicas tell each other.
type Store interface {
	lock.Declarer
	lock.Peers
}

// Agreement declares how this replica keeps locks.
type Agreement struct {
	Replica

	store   Store
	log     *zap.Logger
	differs prometheus.Gauge
	shared  prometheus.Gauge // the name, by so many others
	peers   *peers.Peers[struct{}, named]
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	settled bool       // the store agreed once
	last    error      // of the last declaration
	others  []string   // prefixes of others that overlap with this one's
	unread  error      // why they could not be read the last time
	names   names
}

// Begin declares a replica until Close. It returns ErrDiffers if another one keeps locks in another way. If the store
// cannot be reached, such a difference is found later, and told to failed, which must not block. reg may be nil.
func Begin(store Store, r Replica, log *zap.Logger, reg prometheus.Registerer, failed func(error)) (*Agreement, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "lockd", Name: name, Help: help})
	}
	a := &Agreement{
		Replica: r, store: store, log: log.Named("agreement"),
		differs: gauge("config_differs", "1 if other replicas keep the locks of this store in another way."),
		shared:  gauge("replica_name_shared", "How many other replicas of this store have the name of this one."),
	}
	if reg != nil {
		if err := errors.Join(reg.Register(a.differs), reg.Register(a.shared)); err != nil {
			return nil, fmt.Errorf("register the metrics of agreement: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	if err := a.declare(ctx); errors.Is(err, ErrDiffers) {
		cancel()
		return nil, err
	}
	a.findOverlaps(ctx)
	answer := func(struct{}) named { return named{r.Name, r.ID, r.clients()} }
	a.peers = peers.Join(store, "names", r.ID, answer, func(err error) {
		a.log.Debug("another replica was not told the name of this one", zap.Error(err))
	})
	a.wg.Go(func() { a.keep(ctx, failed) })
	return a, nil
}

// Close ends it. The declaration stays for Lasts, because leases go on.
func (a *Agreement) Close() {
	a.cancel()
	a.peers.Leave()
	a.wg.Wait()
}

// keep repeats the declaration, and asks who else is there.
func (a *Agreement) keep(ctx context.Context, failed func(error)) {
	a.askNames(ctx)
	for {
		pause := every
		if !a.agreed() {
			pause = soon
		}
		if lock.Pause(ctx, pause); ctx.Err() != nil {
			return
		}
		if err := a.declare(ctx); errors.Is(err, ErrDiffers) && !a.agreed() {
			failed(err)
			return
		}
		a.findOverlaps(ctx)
		a.askNames(ctx)
	}
}

// findOverlaps asks for replicas with another prefix whose names may be names here, and tells of them when they come.
func (a *Agreement) findOverlaps(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errors.New("the store did not answer in time"))
	defer cancel()
	others, err := a.store.Overlaps(ctx, Lasts)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unread = err; err != nil {
		a.log.Debug("which prefixes are in use is not known", zap.Error(err))
		return
	}
	for _, other := range others {
		if !slices.Contains(a.others, other) {
			a.log.Warn("another lockd uses a prefix that overlaps with this one's: some of its names are names here",
				zap.String(observe.KeyPrefix, other), zap.String(observe.KeyRemedy, overlapRemedy))
		}
	}
	a.others = others
}

const overlapRemedy = "give each a prefix that does not begin as the other one's (redis.prefix), or another database"

func (a *Agreement) agreed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.settled
}

// declare declares once, and notes what comes of it.
func (a *Agreement) declare(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errors.New("the store did not answer in time"))
	defer cancel()
	kept, err := a.store.Declare(ctx, a.Text, Lasts)
	if err == nil && kept != a.Text {
		err = fmt.Errorf("%w: they say %q, this one is configured as %q; give all replicas the same configuration. To "+
			"change it, stop all of them, "+
			"and wait %v and until their leases have ended", ErrDiffers, kept, a.Text, Lasts)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.last
	a.last = err
	switch {
	case err == nil:
		a.settled = true
		a.differs.Set(0)
		if errors.Is(was, ErrDiffers) {
			a.log.Info("the replicas agree again how locks are kept")
		}
	case errors.Is(err, ErrDiffers):
		a.differs.Set(1)
		if !errors.Is(was, ErrDiffers) {
			a.log.Error("replicas keep locks in different ways", zap.Error(err),
				zap.String(observe.KeyRemedy, "give all replicas the same configuration"))
		}
	default:
		a.log.Debug("how locks are kept could not be declared", zap.Error(err))
	}
	return err
}

// Examine tells how the last declaration went, and who else is there.
func (a *Agreement) Examine() []lock.Finding {
	a.mu.Lock()
	defer a.mu.Unlock()
	return []lock.Finding{a.agreementLocked(), a.overlapLocked(), a.names.finding()}
}

func (a *Agreement) overlapLocked() lock.Finding {
	f := lock.Finding{
		Severity: lock.SeverityOK, Check: "PREFIX_OVERLAPS",
		Detail: "no other lockd uses names that may be names here",
	}
	switch {
	case len(a.others) > 0:
		f.Severity, f.Remedy = lock.SeverityWarning, overlapRemedy
		f.Detail = fmt.Sprintf("replicas with the prefix %q use the same Redis: some of their names are names here", a.others)
	case a.unread != nil:
		f.Severity, f.Detail = lock.SeverityInfo, "could not be looked at: "+a.unread.Error()
	}
	return f
}

func (a *Agreement) agreementLocked() lock.Finding {
	f := lock.Finding{Severity: lock.SeverityOK, Check: "CONFIG_AGREES", Detail: "all replicas say " + a.Text}
	switch {
	case errors.Is(a.last, ErrDiffers):
		f.Severity, f.Detail = lock.SeverityError, a.last.Error()
		f.Remedy = "give all replicas the same configuration"
	case errors.Is(a.last, lock.ErrUnavailable), errors.Is(a.last, lock.ErrOutcomeUnknown):
		// Of the store itself other findings tell.
		f.Severity, f.Detail = lock.SeverityInfo,
			"could not be looked at: the store did not answer the last time, and is asked again"
	case a.last != nil:
		f.Severity, f.Detail = lock.SeverityInfo, "could not be looked at: "+a.last.Error()
	}
	return f
}
