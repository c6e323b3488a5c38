package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func (c *client) watch(name string) {
	c.t.Helper()
	c.Watch(c.id(), name)
	one[session.Done](c)
}

func TestUnlocksAreMergedOnlyWhenTheClientDoesNotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.alive()
		watcher.watch("job")
		const ends = 200
		var last lock.Fence
		for range ends {
			g := holder.take("job")
			last = g.Hold.Fence
			holder.release(g.Hold)
		}
		var told []session.Unlocked
		total := 0
		for _, e := range watcher.events() {
			u := e.(session.Unlocked)
			told = append(told, u)
			total += 1 + int(u.Merged)
		}
		if n := len(told); total != ends || n < 10 || n >= ends || told[n-1].Fence != last || told[0].Merged > 0 {
			t.Errorf("%d ends were told as %d in %d events: %+v", ends, total, n, told)
		}
	})
}

// TestAClientThatDoesNotReadIsClosedWhenItsPositionIsTooMuch has the outbox run full by what a waiter is told in the
// middle of being refused.
func TestAClientThatDoesNotReadIsClosedWhenItsPositionIsTooMuch(t *testing.T) {
	cfg := testConfig()
	limits := &cfg.Limits
	limits.LocksPerSession, limits.WaitersPerSession, limits.WatchesPerSession = 20, 10, 10
	for _, req := range []request.Acquire{
		of("job", lock.Exclusive), of("job", lock.Fair), of("job", lock.Write), of("job", lock.Semaphore),
		allOf(lock.Exclusive, "other", "job"),
	} {
		inWorldWith(t, cfg, func(w *world) {
			w.replica().alive().takeAs(of("job", req.Kind))
			c := w.open()
			for range limits.LocksPerSession + 2*limits.WaitersPerSession + limits.WatchesPerSession + 1024 {
				c.Cancel(c.id(), 0)
			}
			c.acquire(req)
			<-c.Done()
			if !errors.Is(c.Cause(), session.ErrBacklog) {
				t.Errorf("%v: got %v, want ErrBacklog", req.Kind, c.Cause())
			}
			time.Sleep(time.Second)
			if r := c.Residue() + w.b.Residue(); r != "" {
				t.Errorf("%v: left: %s", req.Kind, r)
			}
		})
	}
}
