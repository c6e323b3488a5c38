package script

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockd-io/lockd/internal/lock"
)

// Metrics of calls. No label comes from users.
type Metrics struct {
	Seconds  *prometheus.HistogramVec // by script
	Failures *prometheus.CounterVec   // by what the failure means
	Loads    prometheus.Counter       // scripts that Redis had forgotten
}

// FailureKinds are the labels of Failures.
var FailureKinds = []string{"outcome_unknown", "unavailable", "store_full", "kind_mismatch"}

// CountFailure counts a failure with a meaning, see Meaning.
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
