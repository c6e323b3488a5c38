package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// health knows which servers the members are.
type health struct {
	met atomic.Bool // a member was met that is not marked as new

	mu         sync.Mutex // guards the fields below
	identities []string   // as the members last told them, empty if never
	changed    set        // the members that changed since epoch was counted up
	epoch      int
}

// Probe implements lock.Store. The identity changes when a majority of the members are other servers. If fewer are, no
// hold is lost, and renewals notice what those members lack.
func (s *Store) Probe(ctx context.Context) (identity string, err error) {
	_, err = question[string]{
		what: "probe", name: "members", kind: lock.Exclusive, quiet: true,
		ask: func(ctx context.Context, m *member) (string, error) {
			id, err := m.Probe(ctx)
			s.probed(m, id, err)
			s.confirmNew(ctx)
			if err == nil {
				s.tell(m)
			}
			return id, err
		},
		verdict: func(b *ballot[string], last bool) (none string, over bool, err error) {
			if !last && s.marked() >= s.quorum {
				return none, false, nil // wait for the others: only if they are new, too, a majority votes
			}
			return oneWord(b, last)
		},
	}.put(ctx, s)
	if err != nil {
		if !errors.Is(err, lock.ErrUnavailable) {
			err = errors.Join(lock.ErrNoQuorum, err)
		}
		return "", err
	}
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	return fmt.Sprintf("majority %d", s.health.epoch), nil
}

// Meet probes the members and waits until all have answered, or ctx ends. So they are known when the first request
// comes.
func (s *Store) Meet(ctx context.Context) {
	if _, err := s.Probe(ctx); err != nil {
		s.log.Warn("no majority can be reached yet", zap.Error(err))
	}
	s.calm(ctx)
}

func (s *Store) probed(m *member, identity string, err error) {
	if was, met := m.up.Swap(err == nil), m.met.Swap(true); was != (err == nil) || !met {
		if err != nil {
			s.log.Warn("a member cannot be reached", zap.String(observe.KeyMember, m.name), zap.Error(err))
		} else {
			s.log.Info("a member can be reached", zap.String(observe.KeyMember, m.name))
		}
	}
	if err != nil {
		return
	}
	h := &s.health
	if b, ok := lock.As[Marked](m.Store); ok && !b.Marked() {
		h.met.Store(true)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.identities[m.number]
	h.identities[m.number] = identity
	if before == "" || before == identity {
		return
	}
	s.log.Warn("a member is another server, or was restarted", zap.String(observe.KeyMember, m.name))
	h.changed.add(m.number)
	if h.changed.len() >= s.quorum {
		h.changed = 0
		h.epoch++
	}
}

// metrics of a majority. Members are named by the configuration.
type metrics struct {
	raised   prometheus.Counter
	restored prometheus.Counter
}

// newMetrics makes the metrics and registers them, unless reg is nil.
func newMetrics(s *Store, reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "lockd", Subsystem: "redlock", Name: name, Help: help,
		})
	}
	gauge := func(m *member, name, help string, is func() bool) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "lockd", Subsystem: "redlock", Name: name, Help: help,
			ConstLabels: prometheus.Labels{"member": m.name},
		}, func() float64 { return float64(count(is())) })
	}
	m := &metrics{
		raised: counter("fence_raises_total",
			"Grants for which the members gave different fences, which cost a second round."),
		restored: counter("holds_restored_total",
			"Holds that were put back at a member that had lost them."),
	}
	if reg == nil {
		return m, nil
	}
	all := []prometheus.Collector{m.raised, m.restored}
	for _, m := range s.members {
		all = append(all,
			gauge(m, "member_up", "1 if the member answered the last probe.", m.up.Load),
			gauge(m, "member_quarantined", "1 if the member does not vote for new holds because it may have lost its data.",
				func() bool { return s.quarantined(m) }))
	}
	var errs []error
	for _, c := range all {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// count is 1 for true, 0 for false.
func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// Publish implements lock.Store. One member carries the message: the one that took the last message, or the next one
// after it that takes this one.
func (s *Store) Publish(ctx context.Context, topic string, message []byte) (heard int, err error) {
	first := int(s.publisher.Load())
	for n := range s.members {
		i := (first + n) % len(s.members)
		ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.NodeTimeout, errSlow)
		heard, err = s.members[i].Publish(ctx, topic, message)
		if cancel(); err == nil {
			s.publisher.Store(int32(i)) //nolint:gosec // there are few
			return heard, nil
		}
	}
	return 0, about("publish to", topic, err)
}

// Subscribe implements lock.Store.
func (s *Store) Subscribe(topic string, notify func(message []byte)) (stop func()) {
	return s.atAll(func(m *member) (stop func()) { return m.Subscribe(topic, notify) })
}

// atAll begins something at all members, and returns the function that stops it at all.
func (s *Store) atAll(begin func(m *member) (stop func())) (stop func()) {
	var stops []func()
	for _, m := range s.members {
		stops = append(stops, begin(m))
	}
	return sync.OnceFunc(func() {
		for _, stop := range stops {
			stop()
		}
	})
}
