package grpcapi

import (
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/lockd-io/lockd/internal/observe"
)

type metrics struct {
	streams prometheus.Gauge
	calls   *prometheus.CounterVec
	// handshakes counts those that failed, by endpoint.
	handshakes *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "lockd", Name: "streams",
			Help: "Open session streams.",
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "lockd", Name: "unary_calls_total", Help: "Answered unary calls.",
		}, []string{"method", "code"}),
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "lockd", Name: "tls_handshakes_failed_total", Help: "Connections that ended in their TLS handshake.",
		}, []string{"endpoint"}),
	}
	observe.Known(m.handshakes, "listen", "admin_listen")
	reg.MustRegister(m.streams, m.calls, m.handshakes)
	return m
}

// beginAtZero makes the series of all methods exist, with all codes that the table of errors and gRPC itself can give.
func (m *metrics) beginAtZero(services map[string]grpc.ServiceInfo) {
	known := map[codes.Code]bool{codes.OK: true, codes.Canceled: true, codes.DeadlineExceeded: true, codes.Internal: true}
	for _, row := range table {
		known[row.code] = true
	}
	for service, info := range services {
		for _, method := range info.Methods {
			if method.IsClientStream || method.IsServerStream {
				continue
			}
			for code := range known {
				m.calls.WithLabelValues("/"+service+"/"+method.Name, code.String())
			}
		}
	}
}
