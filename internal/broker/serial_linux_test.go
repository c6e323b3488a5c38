package broker_test

import (
	"slices"
	"testing"

	"github.com/lockd-io/lockd/internal/benchtest"
)

// BenchmarkSerial tells what a pair does under a mutex that many pairs share: held-ns/pair, and what part of the time
// it is held, each the median of short turns. No more pairs than one in that time can be done, with however many
// processors. All pairs are of one session. The work has one of two processors; the other one looks at the mutex.
func BenchmarkSerial(b *testing.B) {
	session := openHot(b, newHot(b))
	for name, mu := range session.Shared() {
		b.Run(name, func(b *testing.B) {
			var turns, parts []float64
			for b.Loop() {
				held := benchtest.Hold(mu)
				_, pairs := hotTurn(2, []*hotSession{session})
				took, part := held.Stop()
				turns, parts = append(turns, float64(took)/float64(pairs)), append(parts, part)
			}
			slices.Sort(turns)
			slices.Sort(parts)
			b.ReportMetric(0, "ns/op") // a turn has its time
			b.ReportMetric(turns[len(turns)/2], "held-ns/pair")
			b.ReportMetric(100*parts[len(parts)/2], "held-%")
		})
	}
}
