package broker_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/watchdog"
)

// logged is a broker whose log a test reads.
type logged struct {
	tb    testing.TB
	b     *broker.Broker
	store *memstore.Store
}

func logging(tb testing.TB, log *zap.Logger) *logged {
	store, reg := memstore.New(), prometheus.NewRegistry()
	dog := watchdog.New(store, log, reg)
	l := &logged{tb: tb, store: store, b: broker.New(testConfig(), store, dog, log, reg)}
	tb.Cleanup(func() {
		if err := l.b.Close(context.Background()); err != nil {
			tb.Errorf("close: %v", err)
		}
		dog.Close()
	})
	return l
}

func (l *logged) openAs(c broker.Client) *broker.Session {
	l.tb.Helper()
	s, err := l.b.Open(broker.OpenRequest{Client: c})
	if err != nil {
		l.tb.Fatal(err)
	}
	return s
}

// BenchmarkPair is what a lock and an unlock cost here, with nothing logged.
func BenchmarkPair(b *testing.B) {
	s := logging(b, zap.NewNop()).openAs(broker.Client{})
	next := func() broker.Event {
		for {
			<-s.Outbox().Wake()
			if events := s.Outbox().Take(); len(events) > 0 {
				return events[0]
			}
		}
	}
	var id uint64
	b.ReportAllocs()
	for b.Loop() {
		s.Acquire(id+1, broker.AcquireRequest{Name: "job", Kind: broker.Exclusive})
		g, ok := next().(broker.Granted)
		if !ok {
			b.Fatal("not granted")
		}
		s.Release(id+2, g.Hold)
		if _, ok := next().(broker.Released); !ok {
			b.Fatal("not released")
		}
		id += 2
	}
}
