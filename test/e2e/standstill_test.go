package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// turnstile is a name that one holds at a time, with fences that rise.
type turnstile struct {
	inside atomic.Int32
	grants atomic.Int32
	mu     sync.Mutex // guards the field below
	fence  uint64
}

func (s *turnstile) pass(t *testing.T, l *client.Lock) {
	if n := s.inside.Add(1); n > 1 {
		t.Errorf("%d hold it", n)
	}
	s.grants.Add(1)
	s.mu.Lock()
	if l.Fence() <= s.fence {
		t.Errorf("fence %d after %d", l.Fence(), s.fence)
	}
	s.fence = l.Fence()
	s.mu.Unlock()
	s.inside.Add(-1)
}

// A name that is wanted all the time passes from one to the next while masters stand still and go on, two of five at a
// time, and waiters leave. When all is over no master has anything.
func TestANamePassesOnWhileMastersStandStill(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	const lasts = 15 * time.Second
	masters := redistest.StartMasters(t, 5, durable...)
	replicas := []*harness.Lockd{startRedlock(t, masters), startRedlock(t, masters)}
	stile := &turnstile{}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 8 {
		c := replicas[i%2].Dial(t)
		wg.Go(func() {
			for ctx.Err() == nil {
				one, left := context.WithCancel(ctx)
				if rand.IntN(4) == 0 {
					time.AfterFunc(rand.N(20*time.Millisecond), left)
				}
				l, err := c.Lock(one, "job")
				left()
				switch {
				case err == nil:
					stile.pass(t, l)
					if err := l.Unlock(context.WithoutCancel(ctx)); err != nil {
						t.Logf("unlock: %v", err)
					}
				case !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
					t.Logf("lock: %v", err)
				}
			}
		})
	}
	for ctx.Err() == nil {
		some := rand.Perm(len(masters))[:1+rand.IntN(2)]
		for _, i := range some {
			masters[i].Pause()
		}
		time.Sleep(rand.N(3 * time.Second))
		for _, i := range some {
			masters[i].Resume()
		}
		time.Sleep(rand.N(time.Second))
	}
	wg.Wait()
	if n := stile.grants.Load(); n < 10 {
		t.Errorf("%d grants are too few for this test to mean anything", n)
	}
	harness.Until(t, "no master has anything", func() bool {
		for _, m := range masters {
			if n, err := m.Client().Exists(t.Context(), "job").Result(); err != nil || n != 0 {
				return false
			}
		}
		return true
	})
}
