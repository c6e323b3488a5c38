package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// Many callers that wait for nothing in goroutines, as the broker is one: what a pair costs Redis and this process in
// CPU time, and how many there are in a second. Exclusive locks are of names of their own; all else is one name of all.
func BenchmarkPairStarted(b *testing.B) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Read, lock.Semaphore} {
		for _, callers := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("%v/%d", kind, callers), func(b *testing.B) { benchStarted(b, kind, callers) })
		}
	}
}

func benchStarted(b *testing.B, kind lock.Kind, callers int) {
	srv := redistest.Start(b)
	s, err := Open(b.Context(), quick(srv), zap.NewNop(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	startedPairs(b, s, kind, callers, 4*callers) // loads and warms
	b.ReportAllocs()
	b.ResetTimer()
	theirs, ours := srv.CPU(), ownCPU()
	startedPairs(b, s, kind, callers, b.N)
	b.StopTimer()
	theirs, ours = srv.CPU()-theirs, ownCPU()-ours
	b.ReportMetric(float64(theirs.Nanoseconds())/1e3/float64(b.N), "redis-us/pair")
	b.ReportMetric(float64(ours.Nanoseconds())/1e3/float64(b.N), "own-us/pair")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// startedPairs makes n pairs, by so many callers at a time.
func startedPairs(b *testing.B, s *Store, kind lock.Kind, callers, n int) {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for i := range callers {
		o := whole(lock.Owner(fmt.Sprint("e95484f9-6fed-45a6-8f32-41c6bff7b9da:#", i)))
		c := lock.Claim{Name: "n", Kind: kind, Owner: whole(o), Count: 1, TTL: lease}
		r := lock.Return{Name: "n", Kind: kind, Owner: whole(o)}
		switch kind {
		case lock.Exclusive:
			c.Name = fmt.Sprintf("n%d", i)
			r.Name = c.Name
		case lock.Semaphore:
			c.Permits, c.Limit, r.Permits = 1, 1000, 1
		default:
		}
		wg.Add(1)
		var next func()
		next = func() {
			if left.Add(-1) < 0 {
				wg.Done()
				return
			}
			s.StartAcquire(c, func(g lock.Grant, err error) {
				if err != nil {
					b.Error(err)
				}
				r := r
				r.Fence = g.Fence
				s.StartRelease(r, func(_ lock.Returned, err error) {
					if err != nil {
						b.Error(err)
					}
					next()
				})
			})
		}
		next()
	}
	wg.Wait()
}

// ownCPU is the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Renewals of the holds of a hundred sessions in turn, as rounds ask for them: what one costs Redis and this process in
// CPU time.
func BenchmarkRenew(b *testing.B) {
	const all, piece = 100_000, 625
	srv := redistest.Start(b)
	s, err := Open(b.Context(), quick(srv), zap.NewNop(), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	rs := make([]lock.Renewal, all)
	var wg sync.WaitGroup
	for i := range rs {
		c := claim(fmt.Sprintf("scale:%d:%d", i/1000, i),
			whole(lock.Owner(fmt.Sprintf("e95484f9-6fed-45a6-8f32-41c6bff7b9da:#%d", i))))
		c.TTL = time.Minute
		wg.Add(1)
		s.StartAcquire(c, func(g lock.Grant, err error) {
			defer wg.Done()
			rs[i] = lock.Renewal{
				Name: c.Name, Kind: c.Kind, Owner: c.Owner, TTL: 2 * time.Minute, Fence: g.Fence,
				Seen: time.Now(), Sole: true,
			}
			if err != nil {
				b.Error(err)
			}
		})
		if i%1000 == 0 {
			wg.Wait()
		}
	}
	wg.Wait()
	b.ReportAllocs()
	theirs, ours := srv.CPU(), ownCPU()
	at, n := 0, 0
	for b.Loop() {
		some := rs[at : at+piece]
		s.Renew(b.Context(), some, func(_ int, err error) {
			if err != nil {
				b.Error(err)
			}
		})
		at = (at + piece) % all
		n += piece
	}
	theirs, ours = srv.CPU()-theirs, ownCPU()-ours
	b.ReportMetric(float64(theirs.Nanoseconds())/1e3/float64(n), "redis-us/lease")
	b.ReportMetric(float64(ours.Nanoseconds())/1e3/float64(n), "own-us/lease")
	b.ReportMetric(0, "ns/op")
}
