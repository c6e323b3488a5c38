package redisstore

import (
	"errors"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/observe"
)

// metrics of one Redis. No label comes from users.
type metrics struct {
	seconds       *prometheus.HistogramVec // by script
	failures      *prometheus.CounterVec   // by what the failure means
	scriptLoads   prometheus.Counter
	resubscribed  prometheus.Counter
	restarts      prometheus.Counter
	subscriptions prometheus.Gauge
}

// errorKinds are what failed calls are counted as.
var errorKinds = []string{"outcome_unknown", "unavailable", "store_full", "kind_mismatch"}

// newMetrics makes the metrics and registers them, unless reg is nil.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		seconds: prometheus.NewHistogramVec(observe.Brief("redis_cmd_seconds",
			"Time from sending a script to its answer, waiting for a place in a pipeline included."), []string{"script"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "lockd", Name: "redis_errors_total",
			Help: "Calls that failed, by what is known of their outcome.",
		}, []string{"kind"}),
		scriptLoads: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "lockd", Name: "redis_script_loads_total",
			Help: "Scripts sent in full because Redis did not know them (any more).",
		}),
		resubscribed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "lockd", Name: "redis_pubsub_resubscribe_total",
			Help: "Interruptions of the connection that hears of releases.",
		}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "lockd", Name: "redis_run_id_changes_total",
			Help: "Times another server answered at the address: a restart or a fail-over.",
		}),
		subscriptions: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "lockd", Name: "redis_pubsub_channels",
			Help: "Channels that are subscribed, or about to be.",
		}),
	}
	observe.Known(m.failures, errorKinds...)
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.seconds, m.failures, m.scriptLoads, m.resubscribed, m.restarts, m.subscriptions} {
		errs = append(errs, reg.Register(c))
	}
	return m, errors.Join(errs...)
}

// failed counts a failure.
func (m *metrics) failed(meaning error) {
	kind := "outcome_unknown"
	switch {
	case errors.Is(meaning, lock.ErrUnavailable):
		kind = "unavailable"
	case errors.Is(meaning, lock.ErrStoreFull):
		kind = "store_full"
	case errors.Is(meaning, lock.ErrKindMismatch):
		kind = "kind_mismatch"
	}
	m.failures.WithLabelValues(kind).Inc()
}
