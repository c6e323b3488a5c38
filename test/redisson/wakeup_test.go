package redisson

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
)

// asleep is the least that a waiter of lockd sleeps before it looks, when it is told nothing; most sleep longer. A
// waiter of Redisson sleeps until the lease ends, which is after the test.
const asleep = 2 * time.Second

func TestReleasesWakeTheOtherSide(t *testing.T) {
	onEach(t, long, pairs, func(s *stage, p pair, name string) {
		t := s.t
		s.prepare(p.holder, name)
		w := &wakeups{s: s, pair: p, name: name, client: s.lockd.Dial(s.t), worker: s.redisson.worker("waiter")}
		slept, rounds := 0, tier.Pick(20, 200)
		for range rounds {
			w.fromLockd()
			began := time.Now()
			w.fromRedisson()
			if time.Since(began) > asleep {
				slept++
			}
		}
		if slept > rounds/2 {
			t.Errorf("lockd slept %d of %d times instead of being told", slept, rounds)
		}
	})
}

// wakeups has one side release what the other waits for.
type wakeups struct {
	s      *stage
	pair   pair
	name   string
	client *client.Client
	worker *worker
}

// hesitate lets the other one begin to wait. It may also be too short for that: then the release comes in the middle.
func hesitate() { time.Sleep(time.Duration(rand.Int64N(int64(8 * time.Millisecond)))) }

func (w *wakeups) fromLockd() {
	w.s.t.Helper()
	l := w.s.lock(w.client, w.pair.holder, w.name)
	c := w.worker.tell("acquire", w.pair.waiter.name, w.name, 0)
	hesitate()
	if c.answered() {
		w.s.t.Fatalf("Redisson got what lockd holds: %v", c.err)
	}
	w.s.unlock(l)
	c.must()
	w.worker.ask("release", w.pair.waiter.name, w.name)
}

func (w *wakeups) fromRedisson() {
	w.s.t.Helper()
	w.worker.ask("acquire", w.pair.holder.name, w.name, 0)
	waiter := w.s.wait(w.client, w.pair.waiter, w.name)
	hesitate()
	w.s.none(waiter)
	w.worker.ask("release", w.pair.holder.name, w.name)
	w.s.unlock(w.s.soon(waiter))
}
