package watchdog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/observe"
)

type metrics struct {
	renewed   prometheus.Counter
	gone      prometheus.Counter
	failed    prometheus.Counter
	lateness  prometheus.Histogram
	remaining prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	renewals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "lockd", Name: "renew_total", Help: "Lease renewals by result: renewed, gone, failed.",
	}, []string{"result"})
	m := &metrics{
		renewed: renewals.WithLabelValues("renewed"),
		gone:    renewals.WithLabelValues("gone"),
		failed:  renewals.WithLabelValues("failed"),
		lateness: prometheus.NewHistogram(
			observe.Brief("renew_lateness_seconds", "How much later than planned a renewal was sent.")),
		remaining: prometheus.NewHistogram(observe.Histogram("lease_remaining_ratio_at_renew",
			"The part of a session TTL that was left of the validity when a renewal was sent.",
			[]float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1})),
	}
	reg.MustRegister(renewals, m.lateness, m.remaining)
	return m
}
