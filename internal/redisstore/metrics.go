package redisstore

import (
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/observe"
)

// Metrics count for all Stores that share them. No label comes from users.
type Metrics struct {
	script.Metrics

	// Redirections counts calls that a node of a cluster did not take, by its reply.
	Redirections *prometheus.CounterVec

	restarts prometheus.Counter
	hub      hub.Metrics
}

// NewMetrics makes the metrics and registers them, unless reg is nil.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "lockd", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	counters := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts(opts(name, help)), []string{"kind"})
	}
	m := &Metrics{
		Metrics: script.Metrics{
			Seconds: prometheus.NewHistogramVec(observe.Brief("redis_cmd_seconds",
				"Time from sending a script to its answer, waiting for a place in a pipeline included."), []string{"script"}),
			Failures: counters("redis_errors_total", "Calls that failed, by what is known of their outcome."),
			Loads: counter("redis_script_loads_total",
				"Scripts sent in full because Redis did not know them (any more)."),
		},
		Redirections: counters("redis_redirections_total",
			"Calls that a node of a Redis Cluster did not take, by what it said."),
		restarts: counter("redis_run_id_changes_total",
			"Times another server answered at the address: a restart or a fail-over."),
		hub: hub.Metrics{
			Channels: prometheus.NewGauge(prometheus.GaugeOpts(
				opts("redis_pubsub_channels", "Channels that are subscribed, or about to be."))),
			Interruptions: counter("redis_pubsub_resubscribe_total",
				"Interruptions of the connection that hears of releases."),
		},
	}
	observe.Known(m.Failures, script.FailureKinds...)
	observe.Known(m.Redirections, "moved", "ask", "tryagain", "clusterdown")
	if reg == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.Seconds, m.Failures, m.Loads, m.Redirections, m.hub.Interruptions,
		m.restarts, m.hub.Channels,
	} {
		errs = append(errs, reg.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the metrics of redis: %w", err)
	}
	return m, nil
}
