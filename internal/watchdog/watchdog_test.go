package watchdog_test

import (
	"context"
	"math"
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

// once is a store that renews once, and answers late.
type once struct {
	lock.Store
	asked bool
}

func (s *once) Renew(ctx context.Context, rs []lock.Renewal, done func(int, error)) {
	if !s.asked {
		s.asked = true
		time.Sleep(1500 * time.Millisecond)
		s.Store.Renew(ctx, rs, done)
		return
	}
	for i := range rs {
		done(i, lock.ErrUnavailable)
	}
}

func TestALateAnswerToARenewalStretchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, reg := &once{Store: memstore.New()}, prometheus.NewRegistry()
		dog := watchdog.New[*broker.Lease](store, zap.NewNop(), reg)
		defer dog.Close()
		b := broker.New(brokertest.Config(), store, dog, zap.NewNop(), reg)
		defer func() { _ = b.Close(context.Background()) }()
		s, err := b.Open(session.OpenRequest{TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		s.Acquire(1, request.Acquire{Name: "job", Kind: lock.Exclusive})
		lost := func() (is bool) {
			synctest.Wait()
			for _, e := range s.Outbox().TakeSome(math.MaxInt, math.MaxInt) {
				if _, ok := e.(session.Lost); ok {
					is = true
				}
			}
			return is
		}
		time.Sleep(990 * time.Millisecond)
		for range 4 {
			s.Hear()
			time.Sleep(720 * time.Millisecond)
		}
		// Renewed by a call sent after about 1 s, answered after 2.5 s: valid until about 3.96 s, not 5.5 s.
		if lost() {
			t.Error("the renewal did not count")
		}
		time.Sleep(200 * time.Millisecond)
		if !lost() {
			t.Error("the late answer stretched the validity")
		}
	})
}
