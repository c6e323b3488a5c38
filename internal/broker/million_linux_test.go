package broker_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// costless is a Store whose holds cost nothing.
type costless struct {
	*generous
	renewals atomic.Int64
}

func (f *costless) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	f.generous.Renew(ctx, rs, done)
	f.renewals.Add(int64(len(rs)))
}

// BenchmarkAMillionLeases takes a million auto leases, with 100 sessions and 64 requests of each under way, and holds
// them. It prints how fast that is with few and with many leases held, what each costs, and what holding them costs.
func BenchmarkAMillionLeases(b *testing.B) {
	for b.Loop() {
		cfg := testConfig()
		cfg.Limits.LocksPerSession, cfg.Limits.Sessions = 10_000, 100
		store, reg := &costless{generous: newGenerous(b)}, prometheus.NewRegistry()
		dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
		br := broker.New(cfg, store, dog, zap.NewNop(), reg)
		before := heap()
		m := &million{Broker: br}
		for _, upTo := range []int{100_000, 300_000, 1_000_000} {
			began, work, n := time.Now(), cpu(), upTo-m.held
			m.take(b, upTo)
			b.Logf("up to %d: %.0f leases a second, %.1f us of CPU each", upTo, float64(n)/time.Since(began).Seconds(),
				(cpu()-work).Seconds()*1e6/float64(n))
		}
		b.Logf("%d bytes of heap for each", (heap()-before)/1_000_000)
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		began, work, renewals, bytes := time.Now(), cpu(), store.renewals.Load(), mem.TotalAlloc
		for time.Since(began) < 30*time.Second {
			time.Sleep(100 * time.Millisecond)
			for range 1 { // one of 100 sessions is heard, each every 10 s
				m.sessions[m.heard%100].Heartbeat(0, 1)
				m.heard++
			}
		}
		n := store.renewals.Load() - renewals
		runtime.ReadMemStats(&mem)
		b.Logf("held: %.2f cores, %.0f renewals a second, %.2f us of CPU and %d bytes of garbage each",
			(cpu()-work).Seconds()/time.Since(began).Seconds(),
			float64(n)/time.Since(began).Seconds(), (cpu()-work).Seconds()*1e6/float64(n), (mem.TotalAlloc-bytes)/uint64(n))
		_ = br.Close(context.Background())
		dog.Close()
	}
}

// cpu is what the process has worked.
func cpu() time.Duration {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use) // cannot fail
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

type million struct {
	*broker.Broker
	sessions []*broker.Session
	held     int
	heard    int
}

// take takes leases until so many are held.
func (m *million) take(b *testing.B, upTo int) {
	for len(m.sessions) < 100 {
		s, err := m.Open(broker.OpenRequest{})
		if err != nil {
			b.Fatal(err)
		}
		m.sessions = append(m.sessions, s)
	}
	var wg sync.WaitGroup
	from, to := m.held/100, upTo/100
	for i, s := range m.sessions {
		wg.Go(func() {
			asked, granted := from, from
			for granted < to {
				for ; asked < min(granted+64, to); asked++ {
					s.Hear()
					s.Acquire(uint64(asked+1), request.Acquire{Name: fmt.Sprintf("scale:%d:%d", i, asked), Kind: lock.Exclusive})
				}
				<-s.Outbox().Wake()
				for _, e := range s.Outbox().Take() {
					if _, ok := e.(session.Granted); !ok {
						b.Errorf("got %T", e)
						return
					}
					granted++
				}
			}
		})
	}
	wg.Wait()
	m.held = upTo
}
