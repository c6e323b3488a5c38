package watchdog

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	renewals  *prometheus.CounterVec
	lateness  prometheus.Histogram
	remaining prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		renewals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "lockd", Name: "renew_total", Help: "Lease renewals by result: renewed, gone, failed.",
		}, []string{"result"}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "lockd", Name: "renew_lateness_seconds", Help: "How much later than planned a renewal was sent.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
		remaining: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "lockd", Name: "lease_remaining_ratio_at_renew",
			Help: "The part of a session TTL that was left of the validity when a renewal was sent.", Buckets: prometheus.LinearBuckets(0.1, 0.1, 10),
		}),
	}
	reg.MustRegister(m.renewals, m.lateness, m.remaining)
	return m
}
