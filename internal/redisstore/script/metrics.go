package script

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/lock"
)

// Metrics are told what becomes of calls. No label comes from users.
type Metrics struct {
	Seconds  *prometheus.HistogramVec // by script
	Failures *prometheus.CounterVec   // by what the failure means
	Loads    prometheus.Counter       // of scripts that Redis had forgotten
}

// FailureKinds are what failed calls are counted as.
var FailureKinds = []string{"outcome_unknown", "unavailable", "store_full", "kind_mismatch"}

// CountFailure counts a failure.
func (m *Metrics) CountFailure(meaning error) {
	kind := "outcome_unknown"
	switch {
	case errors.Is(meaning, lock.ErrUnavailable):
		kind = "unavailable"
	case errors.Is(meaning, lock.ErrStoreFull):
		kind = "store_full"
	case errors.Is(meaning, lock.ErrKindMismatch):
		kind = "kind_mismatch"
	}
	m.Failures.WithLabelValues(kind).Inc()
}
