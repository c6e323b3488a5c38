package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// answerTime is that of testConfig.
const answerTime = 1500 * time.Millisecond

// TestAReleaseDoesNotWaitForAllThatWasAskedBefore has a hundred extensions and nested requests under way for one lease
// while the store is silent for a second at each call.
func TestAReleaseDoesNotWaitForAllThatWasAskedBefore(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		req := holder("job", lock.Exclusive)
		req.Lease = new(time.Hour)
		g := c.takeAs(req)
		for _, verb := range []string{"Acquire", "Extend", "Release"} {
			w.store.on(verb, func(func() error) error { time.Sleep(time.Second); return errUnknown })
		}
		for range 50 {
			c.Extend(c.id(), request.Extend{Hold: g.Hold, Lease: new(time.Hour)})
			c.acquire(req)
		}
		c.Release(c.id(), g.Hold)
		time.Sleep(answerTime + 6*time.Second)
		events := c.events()
		if len(events) != 101 {
			t.Fatalf("got %d answers, want 101", len(events))
		}
		if f, ok := events[100].(session.Failed); !ok || !errors.Is(f.Err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %#v, want an unknown outcome", events[100])
		}
		w.store.well()
		time.Sleep(20 * time.Second)
		w.free("job")
	})
}
