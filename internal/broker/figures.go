package broker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/lock"
)

// figures are what a shard counts for the metrics. A counter to which all processors write takes longer than the rest
// of a request, so each shard has its own, and what is read is the sum. The mutex of the shard guards them.
type figures struct {
	waiters int
	held    [kinds]int
	granted [kinds]float64 // since they were last added up
	waits   [kinds]samples
	holds   samples
}

// kinds is room for one of each kind, by its number.
const kinds = lock.Semaphore + 1

// samples are observations that a histogram was not told yet.
type samples struct {
	n      int
	values [8]float64
}

func (s *samples) add(d time.Duration, to prometheus.Observer) {
	if s.n == len(s.values) {
		s.flush(to)
	}
	s.values[s.n] = d.Seconds()
	s.n++
}

func (s *samples) flush(to prometheus.Observer) {
	for _, v := range s.values[:s.n] {
		to.Observe(v)
	}
	s.n = 0
}

// grantedLocked counts a granted request.
func (m *metrics) grantedLocked(w *waiter, at time.Time) {
	f, k := &w.shard.figures, w.Claim.Kind
	f.granted[k]++
	if trace := w.span.Sampled(); trace != "" {
		observeIn(m.waitTime[k], at.Sub(w.Since), trace)
		return
	}
	f.waits[k].add(at.Sub(w.Since), m.waitTime[k])
}

// heldLocked and endedLocked count a lease.
func (m *metrics) heldLocked(l *Lease) { l.q.shard.figures.held[l.kind]++ }

func (m *metrics) endedLocked(l *Lease) {
	f := &l.q.shard.figures
	f.held[l.kind]--
	f.holds.add(time.Since(l.b.time(l.since)), m.holdTime)
}

// addUp has the metrics say all that was counted so far.
func (b *Broker) addUp() {
	m := b.metrics
	for i := range b.shards {
		h := &b.shards[i]
		h.mu.Lock()
		for _, k := range lock.Kinds() {
			m.grants[k].Add(h.figures.granted[k])
			h.figures.granted[k] = 0
			h.figures.waits[k].flush(m.waitTime[k])
		}
		h.figures.holds.flush(m.holdTime)
		h.mu.Unlock()
	}
}

// sum adds up something of all shards.
func (b *Broker) sum(of func(h *shard) int) (n int) {
	for i := range b.shards {
		h := &b.shards[i]
		h.mu.Lock()
		n += of(h)
		h.mu.Unlock()
	}
	return n
}

func (b *Broker) waiters() int { return b.sum(func(h *shard) int { return h.figures.waiters }) }
func (b *Broker) held() int    { return b.sum(func(h *shard) int { return h.leases.Len() }) }

// addedUp is a collector of what is counted in the shards.
type addedUp struct {
	prometheus.Collector
	b *Broker
}

// Collect implements prometheus.Collector.
func (a addedUp) Collect(to chan<- prometheus.Metric) {
	a.b.addUp()
	a.Collector.Collect(to)
}
