package broker

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/session"
)

// metrics never carry the name of a lock or of a client. Each value that a label can have exists at 0 from the start.
type metrics struct {
	acquires *prometheus.CounterVec
	granted  [lock.KindNumbers]prometheus.Counter // those of acquires that are granted
	waitTime [lock.KindNumbers]prometheus.Observer
	held     [lock.KindNumbers]prometheus.Gauge
	holdTime prometheus.Histogram
	handoff  prometheus.Histogram
	lost     *prometheus.CounterVec
	forced   prometheus.Counter
	atRisk   prometheus.Counter
	wakeups  *prometheus.CounterVec
	quota    *prometheus.CounterVec
	resumes  *prometheus.CounterVec
}

// resultGranted is the label of granted requests.
const resultGranted = "granted"

// What the labels can be.
var (
	acquireResults = []string{
		resultGranted, "held", "timed_out", "cancelled", "unknown", "unavailable", "invalid", "quota", "deadlock",
		"forbidden", "error",
	}
	wakers        = []string{"push", "timer"}
	quotaSubjects = []string{
		"sessions", "sessions_per_address", "calls_per_address", "waits_per_address", "names_per_address",
		"locks_per_address", "watches_per_address", "work", "bodies",
		"locks", "waiters", "watches", "queue",
		"names", "operations", "inspections",
		"questions", "pages", "lists", "listings", "permits", "holds", "resumes",
		"client_sessions", "client_locks", "client_waiting", "client_watches", "client_requests_per_second",
		"client_streams",
	}
	resumeResults = []string{"resumed", "expired", "superseded", "quota", "unavailable", "unknown", "invalid", "error"}
)

func newMetrics(reg prometheus.Registerer) *metrics {
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
		resumes: counter("resume_total", "Attempts to go on with a session.", "result"),
	}
	waitTime := prometheus.NewHistogramVec(
		observe.Seconds("acquire_wait_seconds", "From the arrival of a request to its grant."), []string{"kind"})
	held := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "locks_held", Help: "Leases held by sessions of this replica.",
	}, []string{"kind"})
	for _, k := range lock.Kinds() {
		m.granted[k] = m.acquires.WithLabelValues(k.String(), resultGranted)
		m.waitTime[k] = waitTime.WithLabelValues(k.String())
		m.held[k] = held.WithLabelValues(k.String())
	}
	reg.MustRegister(waitTime, held, m.holdTime, m.handoff)
	m.beginAtZero()
	return m
}

func (m *metrics) beginAtZero() {
	for _, k := range lock.Kinds() {
		for _, result := range acquireResults {
			m.acquires.WithLabelValues(k.String(), result)
		}
	}
	for r := lock.LostExpired; r.String() != lock.LostReason(0).String(); r++ {
		m.lost.WithLabelValues(r.String())
	}
	observe.Known(m.wakeups, wakers...)
	observe.Known(m.quota, quotaSubjects...)
	observe.Known(m.resumes, resumeResults...)
}

// registerStates registers the metrics that are read only when they are asked for.
func (m *metrics) registerStates(reg prometheus.Registerer, b *Broker) {
	gauge := func(name, help string, value func() int) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "lockd", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	count := func(name, help string, value func() uint64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "lockd", Name: name, Help: help},
			func() float64 { return float64(value()) }))
	}
	gauge("waiters", "Requests that wait for a lock.", func() int { return b.Status().Waiters })
	gauge("sessions", "Open sessions.", b.sessions.Len)
	gauge("drain_remaining_sessions", "Sessions that have not left yet, while this replica drains; else 0.",
		b.sessions.Streams)
	gauge("store_up", "1 when the last probe reached the store.", func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.down != nil {
			return 0
		}
		return 1
	})
	gauge("resuming", "Sessions being resumed, or waiting for that.", b.sessions.Returning)
	gauge("watched_names", "Names watched by sessions.", b.watching.Names)
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "oldest_waiter_seconds", Help: "How long the longest waiting request has waited.",
	}, b.oldestWaiter))
	count("deadlocks_found_total", "Deadlocks whose youngest request waited at this replica.",
		func() uint64 { found, _, _ := b.finder.Counts(); return found })
	count("deadlock_failures_total", "Requests of this replica that were ended because of a deadlock.",
		func() uint64 { _, failed, _ := b.finder.Counts(); return failed })
	gauge("deadlocks", "Deadlocks that last, whose youngest request waits at this replica.",
		func() int { _, _, last := b.finder.Counts(); return last })
}

func (b *Broker) oldestWaiter() float64 {
	now := time.Now()
	first := now
	b.eachShard(func(h *shard) {
		for w := range h.waiting {
			if at := w.firstAsked(); at.Before(first) {
				first = at
			}
		}
	})
	return now.Sub(first).Seconds()
}

// outcomes are the errors that have a label of their own. If an error wraps several, the first one in this list counts.
var outcomes = []struct {
	err   error
	label string
}{
	{session.ErrSessionExpired, "expired"},
	{session.ErrSuperseded, "superseded"},
	{lock.ErrHeld, "held"},
	{session.ErrDeadlock, "deadlock"},
	{session.ErrTimedOut, "timed_out"},
	{session.ErrCancelled, "cancelled"},
	{lock.ErrOutcomeUnknown, "unknown"},
	{lock.ErrUnavailable, "unavailable"},
	{session.ErrDraining, "unavailable"},
	{lock.ErrInvalid, "invalid"},
	{lock.ErrUnsupported, "invalid"},
	{session.ErrQuota, "quota"},
	{session.ErrForbidden, "forbidden"},
	{errWithdrawn, "withdrawn"},
}

// labelOf is the label of an error if labels has it, else "error".
func labelOf(err error, labels []string) string {
	for _, o := range outcomes {
		if errors.Is(err, o.err) && slices.Contains(labels, o.label) {
			return o.label
		}
	}
	return "error"
}

// resumed counts an attempt to go on with a session.
func (m *metrics) resumed(err error) {
	result := "resumed"
	if err != nil {
		result = labelOf(err, resumeResults)
	}
	m.resumes.WithLabelValues(result).Inc()
}

// grant counts a request that was granted at a time, and how long it waited here.
func (m *metrics) grant(w *waiter, at time.Time) {
	k := w.Claim.Kind
	m.granted[k].Inc()
	observeIn(m.waitTime[k], at.Sub(w.Since), w.span.sampled())
}

// acquired counts a request that was not granted by its outcome.
func (m *metrics) acquired(k lock.Kind, err error) {
	m.acquires.WithLabelValues(k.String(), labelOf(err, acquireResults)).Inc()
}

// Denied counts a refusal because of a limit, and is its error: for what is bounded before a request is known here.
func (b *Broker) Denied(subject string, limit int) error { return b.metrics.denied(subject, limit) }

// denied counts a refusal and is its error.
func (m *metrics) denied(subject string, limit int) error {
	m.quota.WithLabelValues(subject).Inc()
	return &session.QuotaError{Subject: subject, Limit: limit}
}
