package security

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/observe"
)

// The values of labels.
const (
	resultOK     = "ok"
	resultFailed = "failed"

	causeQueue = "queue" // the writer is too slow
	causeRate  = "rate"  // too many lines of one client
	causeWrite = "write" // the write failed
)

type metrics struct {
	valid, applied, clients prometheus.Gauge
	unauthenticated         *prometheus.CounterVec
	lines                   prometheus.Counter
	dropped, refreshes      *prometheus.CounterVec
}

// newMetrics makes the metrics. age returns the age of the oldest keys.
func newMetrics(reg prometheus.Registerer, age func() time.Duration) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "lockd", Name: name, Help: help})
	}
	counters := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Namespace: "lockd", Name: name, Help: help}, []string{label})
	}
	m := &metrics{
		valid: gauge("clients_file_valid",
			"1 if the clients file is in force as it is now, 0 if it has a mistake and an older one is in force."),
		applied: gauge("clients_file_applied_timestamp_seconds", "When the clients file in force was read."),
		clients: gauge("clients", "Clients in the clients file in force."),
		unauthenticated: counters("unauthenticated_total",
			"Streams and unary calls that were refused or ended because it was not known whose they are.", "reason"),
		lines: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "lockd", Name: "audit_lines_total", Help: "Lines written to the audit.",
		}),
		dropped: counters("audit_dropped_total",
			"Lines of the audit that were not written: the queue was full, a client had too many, or a write failed.",
			"cause"),
		refreshes: counters("jwks_refreshes_total", "How often the keys of issuers of tokens were had anew.", "result"),
	}
	observe.Known(m.unauthenticated, reasons...)
	observe.Known(m.dropped, causeQueue, causeRate, causeWrite)
	observe.Known(m.refreshes, resultOK, resultFailed)
	reg.MustRegister(m.valid, m.applied, m.clients, m.unauthenticated, m.lines, m.dropped, m.refreshes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "lockd", Name: "jwks_age_seconds",
			Help: "Age of the oldest keys of an issuer of tokens; 0 if no issuer is in the clients file.",
		}, func() float64 { return age().Seconds() }))
	return m
}
