package redisstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

func benchStore(b testing.TB) *Store {
	b.Helper()
	s, err := Open(b.Context(), quick(redistest.Start(b)), zap.NewNop(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// pair is one acquisition and its release.
func pair(ctx context.Context, s *Store, name string, o lock.Owner) error {
	g, err := s.Acquire(ctx, claim(name, o))
	if err != nil {
		return err
	}
	_, err = s.Release(ctx, giveBack(name, o, g.Fence))
	return err
}

// One caller: latency.
func BenchmarkPairAlone(b *testing.B) {
	s := benchStore(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := pair(b.Context(), s, "n", "o"); err != nil {
			b.Fatal(err)
		}
	}
}

// Many callers: throughput of the shared pipeline.
func BenchmarkPairTogether(b *testing.B) {
	for _, callers := range []int{16, 64, 256} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := benchStore(b)
			var worker atomic.Int64
			b.ReportAllocs()
			b.SetParallelism((callers + 1) / 2)
			b.RunParallel(func(pb *testing.PB) {
				name := fmt.Sprintf("n%d", worker.Add(1))
				for pb.Next() {
					if err := pair(b.Context(), s, name, "o"); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// Renewals of 10,000 holds at once.
func BenchmarkRenew10000(b *testing.B) {
	s := benchStore(b)
	rs := make([]lock.Renewal, 10_000)
	for i := range rs {
		c := claim(fmt.Sprintf("n%d", i), "o")
		rs[i] = lock.Renewal{Name: c.Name, Kind: c.Kind, Owner: c.Owner, TTL: lease, Fence: acquire(b, s, c).Fence}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		s.Renew(b.Context(), rs, func(_ int, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
}
