package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// answerTime is that of testConfig.
const answerTime = 1500 * time.Millisecond

// late makes the store execute each acquire after a time, and answer then.
func (w *world) late(d time.Duration) {
	w.store.on("Acquire", late(d))
	w.store.on("AcquireAll", late(d))
}

// TestAUnaryCallIsAnsweredInTimeByASilentStore is the same without a session. What a caller with its own lease id may
// have taken is left for its repetition.
func TestAUnaryCallIsAnsweredInTimeByASilentStore(t *testing.T) {
	for k := lock.Exclusive; k <= lock.Semaphore; k++ {
		for _, id := range []string{"", ownID} {
			for _, wait := range []time.Duration{0, 100 * time.Millisecond} {
				t.Run(fmt.Sprint(k, " ", id, " ", wait), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.late(10 * time.Second)
						a := <-w.ask(request.Once{Name: "job", Kind: k, Limit: of("job", k).Limit, LeaseID: id, Wait: &wait})
						if !errors.Is(a.err, lock.ErrOutcomeUnknown) || a.after != wait+answerTime {
							t.Errorf("got %+v, want an unknown outcome after %v", a, wait+answerTime)
						}
						time.Sleep(20 * time.Second)
						if id == "" {
							w.free("job")
							return
						}
						if _, err := w.b.ReleaseOnce(request.ReleaseOnce{
							Name: "job", Kind: k, LeaseID: id,
						}); err != nil {
							t.Error(err)
						}
						w.free("job")
					})
				})
			}
		}
	}
}

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
