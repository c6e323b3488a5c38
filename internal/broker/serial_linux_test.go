package broker_test

import (
	"runtime"
	"testing"

	"github.com/lockd-io/lockd/internal/benchtest"
)

// BenchmarkSerial tells what a pair does under a mutex that all names and sessions share: held-ns/op. No more pairs than one
// in that time can be done, with however many processors. The work has one processor; the other one looks at the mutex.
func BenchmarkSerial(b *testing.B) {
	for name, mu := range newHot(b).Shared() {
		b.Run(name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
			broker := newHot(b)
			mu = broker.Shared()[name]
			held := benchtest.Hold(mu)
			runHot(b, broker)
			b.ReportMetric(float64(held.Stop())/float64(b.N), "held-ns/op")
		})
	}
}
