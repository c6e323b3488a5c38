package guard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/peers"
)

const (
	// lookFirst is when the others are asked for their names again after the start, and lookEvery how often in the end:
	// in between, the pause doubles.
	lookFirst = time.Second
	lookEvery = 30 * time.Second
)

const nameRemedy = "give each replica a name of its own: replica in its file, or LOCKD_REPLICA"

// Names asks the other replicas for their names. Lists, logs and traces tell replicas apart by name alone, so two of
// one name look like one. No lock depends on it.
type Names struct {
	replica string
	id      string // of this process, never the same again
	log     *zap.Logger
	shared  prometheus.Gauge
	peers   *peers.Peers[struct{}, named]
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	looked bool
	others int   // that have the same name
	last   error // of the last look
}

// named is what a replica answers.
type named struct {
	Replica string `json:"replica"`
	ID      string `json:"id"`
}

// BeginNames looks until Close. reg may be nil.
func BeginNames(store lock.Peers, replica, id string, log *zap.Logger, reg prometheus.Registerer) (*Names, error) {
	n := &Names{
		replica: replica, id: id, log: log.Named("guard"),
		shared: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "lockd", Name: "replica_name_shared",
			Help: "How many other replicas of this store have the name of this one.",
		}),
	}
	if reg != nil {
		if err := reg.Register(n.shared); err != nil {
			return nil, fmt.Errorf("register the metric of names: %w", err)
		}
	}
	n.peers = peers.Join(store, "names", id, func(struct{}) named { return named{replica, id} }, func(err error) {
		n.log.Debug("another replica was not told the name of this one", zap.Error(err))
	})
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	n.wg.Go(func() { n.keep(ctx) })
	return n, nil
}

// Close ends it.
func (n *Names) Close() {
	n.cancel()
	n.peers.Leave()
	n.wg.Wait()
}

func (n *Names) keep(ctx context.Context) {
	for pause := lookFirst; ; pause = min(2*pause, lookEvery) {
		n.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// look asks once. If not all answer, nobody of the same name among them is no news.
func (n *Names) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answers, asked, err := n.peers.Ask(ctx, struct{}{})
	others := 0
	for _, a := range answers {
		if a.Replica == n.replica && a.ID != n.id {
			others++
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = err
	if err != nil || others == 0 && len(answers) < asked {
		return
	}
	before := n.others
	n.others, n.looked = others, true
	n.shared.Set(float64(others))
	switch {
	case others > 0 && before == 0:
		n.log.Warn("other replicas have the name of this one", zap.String(observe.KeyReplica, n.replica),
			zap.Int(observe.KeyCount, others), zap.String(observe.KeyRemedy, nameRemedy))
	case others == 0 && before > 0:
		n.log.Info("no other replica has the name of this one any more", zap.String(observe.KeyReplica, n.replica))
	}
}

// Examine tells what the last look showed.
func (n *Names) Examine() lock.Finding {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := lock.Finding{Severity: lock.SeverityOK, Check: "REPLICA_NAME", Detail: "no other replica has this name"}
	switch {
	case n.others > 0:
		f.Severity, f.Remedy = lock.SeverityWarning, nameRemedy
		f.Detail = fmt.Sprintf("other replicas have this name, too (%d): lists and logs do not tell them apart", n.others)
	case n.last != nil:
		f.Severity, f.Detail = lock.SeverityInfo, "could not be looked at: "+n.last.Error()
	case !n.looked:
		f.Severity, f.Detail = lock.SeverityInfo, "could not be looked at: not all replicas have answered yet"
	}
	return f
}
