package watchdog_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/brokertest"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// renewals is a Store that notes, fails and holds up renewals.
type renewals struct {
	lock.Store
	mu    sync.Mutex // guards the fields below
	calls []call
	hook  func(ctx context.Context, rs []lock.Renewal) error // an error fails the whole call
}

type call struct {
	at time.Time
	n  int
}

func (s *renewals) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	s.mu.Lock()
	s.calls = append(s.calls, call{time.Now(), len(rs)})
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, rs); err != nil {
			for i := range rs {
				done(i, err)
			}
			return
		}
	}
	s.Store.Renew(ctx, rs, done)
}

func (s *renewals) onRenew(hook func(ctx context.Context, rs []lock.Renewal) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *renewals) takeCalls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// inBubble runs a test with a broker that is kept by a watchdog.
func inBubble(t *testing.T, test func(t *testing.T, store *renewals, b *broker.Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &renewals{Store: memstore.New()}
		reg := prometheus.NewRegistry()
		dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
		cfg := brokertest.Config()
		cfg.Limits.LocksPerSession, cfg.Limits.WaitersPerSession = 20000, 20000
		b := broker.New(cfg, store, dog, zap.NewNop(), reg)
		test(t, store, b)
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
		dog.Close()
	})
}

// hold opens a session with this TTL that holds n locks and is heard a little more often than every third of its TTL
// until stop is called.
func hold(t *testing.T, b *broker.Broker, prefix string, n int, ttl time.Duration) (s *broker.Session, stop func()) {
	t.Helper()
	s, err := b.Open(broker.OpenRequest{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		s.Acquire(uint64(i+1), request.Acquire{Name: fmt.Sprintf("%s-%d", prefix, i), Kind: lock.Exclusive})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-time.After(ttl/3 - 10*time.Millisecond): // before the renewal that is due then
				s.Hear()
			case <-ctx.Done():
			}
		}
	})
	synctest.Wait()
	if got := len(s.Outbox().Take()); got != n {
		t.Fatalf("got %d answers, want %d grants", got, n)
	}
	return s, func() { cancel(); wg.Wait() }
}

// lost counts the Lost events a session has heard.
func lost(s *broker.Session) (n int) {
	synctest.Wait()
	for _, e := range s.Outbox().Take() {
		if _, ok := e.(session.Lost); ok {
			n++
		}
	}
	return n
}

func TestRenewalsShareCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, store *renewals, b *broker.Broker) {
		const locks = 10_000
		before := runtime.NumGoroutine()
		s, stop := hold(t, b, "job", locks, 30*time.Second)
		defer stop()
		if more := runtime.NumGoroutine() - before; more > 10 {
			t.Errorf("%d locks cost %d goroutines", locks, more)
		}
		store.takeCalls()
		time.Sleep(100 * time.Second)
		if n := lost(s); n != 0 {
			t.Errorf("lost %d locks", n)
		}
		calls := store.takeCalls()
		if rounds := 10; len(calls) > 2*rounds*locks/1000 {
			t.Errorf("%d rounds of %d leases took %d calls", rounds, locks, len(calls))
		}
	})
}

func TestASlowCallDelaysNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T, store *renewals, b *broker.Broker) {
		slow, stopSlow := hold(t, b, "slow", 5, 30*time.Second)
		defer stopSlow()
		time.Sleep(3 * time.Second)
		quick, stopQuick := hold(t, b, "quick", 5, 30*time.Second)
		defer stopQuick()
		store.onRenew(func(ctx context.Context, rs []lock.Renewal) error {
			if strings.HasPrefix(rs[0].Name, "slow") {
				<-ctx.Done()
				return lock.ErrOutcomeUnknown
			}
			return nil
		})
		time.Sleep(5 * time.Minute)
		if n := lost(quick); n != 0 {
			t.Errorf("%d leases were lost because others were slow", n)
		}
		if n := lost(slow); n != 5 {
			t.Errorf("%d leases of an unreachable part were lost, want 5", n)
		}
	})
}

func TestAFailedRenewalIsTriedAgainSoon(t *testing.T) {
	inBubble(t, func(t *testing.T, store *renewals, b *broker.Broker) {
		s, stop := hold(t, b, "job", 1, 30*time.Second)
		defer stop()
		store.onRenew(func(context.Context, []lock.Renewal) error { return lock.ErrUnavailable })
		time.Sleep(25 * time.Second) // the validity ends after about 29.7 s
		if tries := len(store.takeCalls()); tries < 10 {
			t.Errorf("got %d tries in the 15s after the first failure, want one per second", tries)
		}
		store.onRenew(nil)
		time.Sleep(time.Minute)
		if n := lost(s); n != 0 {
			t.Error("the lease was lost although a renewal succeeded in time")
		}
	})
}

func TestALeaseEndsAtItsValidityWhileARenewalHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, store *renewals, b *broker.Broker) {
		s, stop := hold(t, b, "job", 1, 3*time.Second)
		defer stop()
		store.onRenew(func(ctx context.Context, _ []lock.Renewal) error {
			time.Sleep(4 * time.Second) // beyond the validity
			return nil
		})
		time.Sleep(3*time.Second - 3*time.Second/100 - 3*time.Millisecond)
		if n := lost(s); n != 0 {
			t.Error("lost before the end of the validity")
		}
		time.Sleep(2 * time.Millisecond)
		if n := lost(s); n != 1 {
			t.Error("not lost at the end of the validity")
		}
	})
}

func TestALateAnswerToARenewalStretchesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, store *renewals, b *broker.Broker) {
		s, stop := hold(t, b, "job", 1, 3*time.Second)
		defer stop()
		var answered time.Time
		store.onRenew(func(context.Context, []lock.Renewal) error {
			if answered.IsZero() {
				time.Sleep(1500 * time.Millisecond)
				answered = time.Now()
				return nil
			}
			return lock.ErrUnavailable
		})
		// Renewed by a call sent after 1 s, answered after 2.5 s: valid until about 3.97 s, not 5.5 s.
		time.Sleep(3900 * time.Millisecond)
		if n := lost(s); n != 0 {
			t.Error("the renewal did not count")
		}
		time.Sleep(200 * time.Millisecond)
		if n := lost(s); n != 1 {
			t.Error("the late answer stretched the validity")
		}
	})
}

// After a sign of life the renewals of many leases are spread, so that no instant has more than its share of them; each
// comes within a tenth of the TTL.
func TestRenewalsAfterASignOfLifeAreSpread(t *testing.T) {
	inBubble(t, func(t *testing.T, store *renewals, b *broker.Broker) {
		const locks, ttl = 5000, 30 * time.Second
		s, stop := hold(t, b, "job", locks, ttl)
		defer stop()
		time.Sleep(ttl/3 - time.Second)
		store.takeCalls()
		began := time.Now()
		s.Hear()
		time.Sleep(ttl/10 + time.Millisecond)
		renewed, most := 0, map[time.Time]int{}
		for _, c := range store.takeCalls() {
			renewed += c.n
			most[c.at] += c.n
			if most[c.at] > locks/10 {
				t.Fatalf("%d leases and more are renewed in one instant, %v after the sign of life", most[c.at], c.at.Sub(began))
			}
		}
		if renewed < locks {
			t.Errorf("only %d of %d leases were renewed within a tenth of the TTL", renewed, locks)
		}
		time.Sleep(5 * ttl)
		if n := lost(s); n != 0 {
			t.Errorf("lost %d locks", n)
		}
	})
}
