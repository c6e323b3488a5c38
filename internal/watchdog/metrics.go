package watchdog

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/observe"
)

type metrics struct {
	renewals  *prometheus.CounterVec
	lateness  prometheus.Histogram
	remaining prometheus.Histogram
}

// The results of a renewal.
const (
	resultRenewed = "renewed"
	resultGone    = "gone"
	resultFailed  = "failed"
)

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "lockd", Name: "renew_total", Help: "Lease renewals by result: renewed, gone, failed.",
		}, []string{"result"}),
		lateness: prometheus.NewHistogram(
			observe.Brief("renew_lateness_seconds", "How much later than planned a renewal was sent.")),
		remaining: prometheus.NewHistogram(observe.Histogram("lease_remaining_ratio_at_renew",
			"The part of a session TTL that was left of the validity when a renewal was sent.",
			[]float64{.05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1})),
	}
	reg.MustRegister(m.renewals, m.lateness, m.remaining)
	observe.Known(m.renewals, resultRenewed, resultGone, resultFailed)
	return m
}
