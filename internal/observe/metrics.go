package observe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Seconds describes a histogram of durations in seconds. It has classic buckets from 100 us to about an hour, and
// native ones for a Prometheus that asks for these.
func Seconds(name, help string) prometheus.HistogramOpts {
	return Histogram(name, help, []float64{
		.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000,
		2500,
	})
}

// Brief describes a histogram of durations that are never long: 100 us to 10 s.
func Brief(name, help string) prometheus.HistogramOpts {
	return Histogram(name, help, []float64{
		.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
	})
}

// Histogram describes a histogram with these classic buckets. A bucket ends at most 2.5 times higher than the one below
// it: a 99th percentile that is read from the buckets is at most that much too high.
func Histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Namespace: "lockd", Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// Known makes the series of all known values of a label exist from the start. Without it the first event of a series
// cannot be seen by increase or rate: the series begins with 1 and does not grow to it.
func Known[V interface{ WithLabelValues(...string) T }, T any](vec V, values ...string) {
	for _, v := range values {
		vec.WithLabelValues(v)
	}
}
