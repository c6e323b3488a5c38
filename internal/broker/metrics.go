package broker

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// metrics never carry the name of a lock or of a client. What a label can be exists at 0 from the start.
type metrics struct {
	waiters  tally
	held     [lock.Semaphore + 1]prometheus.Gauge // by kind
	leases   tally                                // all that are held
	acquires *prometheus.CounterVec
	grants   [lock.Semaphore + 1]prometheus.Counter  // those of acquires that are granted, by kind
	waitTime [lock.Semaphore + 1]prometheus.Observer // by kind
	holdTime prometheus.Histogram
	handoff  prometheus.Histogram
	lost     *prometheus.CounterVec
	forced   prometheus.Counter
	atRisk   prometheus.Counter
	wakeups  *prometheus.CounterVec
	quota    *prometheus.CounterVec
}

// resultGranted is the label of granted requests.
const resultGranted = "granted"

// What the labels can be.
var (
	acquireResults = []string{
		resultGranted, "held", "timed_out", "cancelled", "unknown", "unavailable", "invalid", "quota", "error",
	}
	wakers        = []string{"push", "timer"}
	quotaSubjects = []string{
		"sessions", "sessions_per_address", "calls_per_address", "waits_per_address", "locks", "waiters", "watches", "queue", "names", "operations", "inspections",
		"questions", "pages", "listings", "permits", "holds",
	}
)

func newMetrics(reg prometheus.Registerer, b *Broker) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "lockd", Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	m := &metrics{
		acquires: counter("acquire_total", "Answered acquire requests.", "kind", "result"),
		holdTime: prometheus.NewHistogram(
			observe.Seconds("hold_seconds", "From the grant of a session's lease to its end.")),
		handoff: prometheus.NewHistogram(
			observe.Brief("handoff_seconds", "Duration of a release that handed the lock to the next waiter.")),
		lost:    counter("lost_total", "Leases that ended without being released.", "reason"),
		forced:  counter("forced_total", "Locks freed by force through this replica.").WithLabelValues(),
		atRisk:  counter("at_risk_total", "Times the store could no longer be reached.").WithLabelValues(),
		wakeups: counter("wakeup_by_total", "What woke the head of a queue.", "by"),
		quota:   counter("quota_denied_total", "Requests refused because of a limit.", "subject"),
	}
	waitTime := prometheus.NewHistogramVec(
		observe.Seconds("acquire_wait_seconds", "From the arrival of a request to its grant."), []string{"kind"})
	held := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "locks_held", Help: "Leases held by sessions of this replica.",
	}, []string{"kind"})
	for k := lock.Exclusive; k <= lock.Semaphore; k++ {
		m.held[k] = held.WithLabelValues(k.String())
		m.grants[k] = m.acquires.WithLabelValues(k.String(), resultGranted)
		m.waitTime[k] = waitTime.WithLabelValues(k.String())
	}
	reg.MustRegister(held, waitTime, m.holdTime, m.handoff)
	m.beginAtZero()
	m.registerStates(reg, b)
	return m
}

func (m *metrics) beginAtZero() {
	for k := lock.Exclusive; k <= lock.Semaphore; k++ {
		for _, result := range acquireResults {
			m.acquires.WithLabelValues(k.String(), result)
		}
	}
	for r := lock.LostExpired; r.String() != lock.LostReason(0).String(); r++ {
		m.lost.WithLabelValues(r.String())
	}
	observe.Known(m.wakeups, wakers...)
	observe.Known(m.quota, quotaSubjects...)
}

// registerStates registers what is looked up when it is asked for.
func (m *metrics) registerStates(reg prometheus.Registerer, b *Broker) {
	gauge := func(name, help string, value func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "lockd", Name: name, Help: help}, value))
	}
	gauge("waiters", "Requests in a queue, being tried or waiting.", func() float64 { return float64(m.waiters.Load()) })
	gauge("sessions", "Open sessions.", func() float64 { return float64(b.count(func() int { return len(b.sessions) })) })
	gauge("drain_remaining_sessions", "Sessions that have not left yet, while this replica drains; else 0.", func() float64 {
		return float64(b.count(func() int {
			if !b.draining {
				return 0
			}
			return len(b.sessions)
		}))
	})
	gauge("watched_names", "Names watched by sessions.", func() float64 { return float64(b.watching.Names()) })
	gauge("oldest_waiter_seconds", "How long the longest waiting request has waited.", b.oldestWaiter)
	gauge("store_up", "1 when the last probe reached the store.", func() float64 {
		return float64(b.count(func() int {
			if b.down != nil {
				return 0
			}
			return 1
		}))
	})
}

// tally is a number that goes up and down, and can be read.
type tally struct{ atomic.Int64 }

// Inc and Dec count.
func (t *tally) Inc() { t.Add(1) }

// Dec counts down.
func (t *tally) Dec() { t.Add(-1) }

func (b *Broker) count(f func() int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return f()
}

// oldestWaiter looks at the heads only: queues are in the order of arrival.
func (b *Broker) oldestWaiter() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var oldest time.Duration
	var p piece
	for _, q := range b.queues {
		p.breakLocked(b, 1)
		if w := q.headLocked(); w != nil {
			oldest = max(oldest, time.Since(w.since))
		}
	}
	return oldest.Seconds()
}

func (m *metrics) granted(w *waiter) {
	m.grants[w.claim.Kind].Inc()
	m.waitTime[w.claim.Kind].Observe(time.Since(w.since).Seconds())
}

// acquired counts a request that was not granted by its outcome.
func (m *metrics) acquired(k lock.Kind, err error) {
	result := "error"
	switch {
	case errors.Is(err, lock.ErrHeld):
		result = "held"
	case errors.Is(err, ErrTimedOut):
		result = "timed_out"
	case errors.Is(err, ErrCancelled):
		result = "cancelled"
	case errors.Is(err, lock.ErrOutcomeUnknown):
		result = "unknown"
	case errors.Is(err, lock.ErrUnavailable):
		result = "unavailable"
	case errors.Is(err, lock.ErrInvalid), errors.Is(err, lock.ErrUnsupported):
		result = "invalid"
	case errors.Is(err, ErrQuota):
		result = "quota"
	}
	m.acquires.WithLabelValues(k.String(), result).Inc()
}

// denied counts a refusal and is its error.
func (m *metrics) denied(subject string, limit int) error {
	m.quota.WithLabelValues(subject).Inc()
	return &QuotaError{Subject: subject, Limit: limit}
}
