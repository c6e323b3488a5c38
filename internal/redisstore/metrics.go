package redisstore

import (
	"errors"
	"fmt"

	"github.com/lockd-io/lockd/internal/redisstore/hub"
	"github.com/lockd-io/lockd/internal/redisstore/script"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/observe"
)

// Metrics are of all the servers that Stores with them use. No label comes from users.
type Metrics struct {
	script.Metrics

	// Redirections are calls that a node of a cluster did not take, by what it said.
	Redirections *prometheus.CounterVec

	restarts prometheus.Counter
	hub      hub.Metrics
}

// NewMetrics makes the metrics and registers them, unless reg is nil.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		Metrics: script.Metrics{
			Seconds: prometheus.NewHistogramVec(observe.Brief("redis_cmd_seconds",
				"Time from sending a script to its answer, waiting for a place in a pipeline included."), []string{"script"}),
			Failures: prometheus.NewCounterVec(prometheus.CounterOpts{
				Namespace: "lockd", Name: "redis_errors_total",
				Help: "Calls that failed, by what is known of their outcome.",
			}, []string{"kind"}),
			Loads: prometheus.NewCounter(prometheus.CounterOpts{
				Namespace: "lockd", Name: "redis_script_loads_total",
				Help: "Scripts sent in full because Redis did not know them (any more).",
			}),
		},
		Redirections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "lockd", Name: "redis_redirections_total",
			Help: "Calls that a node of a Redis Cluster did not take, by what it said.",
		}, []string{"kind"}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "lockd", Name: "redis_run_id_changes_total",
			Help: "Times another server answered at the address: a restart or a fail-over.",
		}),
		hub: hub.Metrics{
			Channels: prometheus.NewGauge(prometheus.GaugeOpts{
				Namespace: "lockd", Name: "redis_pubsub_channels",
				Help: "Channels that are subscribed, or about to be.",
			}),
			Interruptions: prometheus.NewCounter(prometheus.CounterOpts{
				Namespace: "lockd", Name: "redis_pubsub_resubscribe_total",
				Help: "Interruptions of the connection that hears of releases.",
			}),
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
