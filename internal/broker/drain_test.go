package broker_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
)

// asked takes from an outbox the times within which its client is to move, one for each Draining.
func (c *client) asked() (within []time.Duration) {
	c.t.Helper()
	for _, e := range c.events() {
		d, ok := e.(session.Draining)
		if !ok {
			c.t.Fatalf("got %#v, want Draining", e)
		}
		within = append(within, d.Within)
	}
	return within
}

func (w *world) several(n int) (clients []*client) {
	for range n {
		clients = append(clients, w.leaving())
	}
	return clients
}

// Very many are not asked at once, but all in the first half of their time; and each has time left then.
func TestDrainAsksVeryManyOneAfterTheOther(t *testing.T) {
	const n, window = 300, 600 * time.Millisecond
	inWorld(t, func(w *world) {
		clients := w.several(n)
		w.b.Drain(window)
		asked := make(map[*client]bool, n)
		for step := time.Duration(0); step <= window/2; step += window / 20 {
			for _, c := range clients {
				within := c.asked()
				if len(within) > 1 || len(within) == 1 && asked[c] {
					t.Fatalf("asked twice: %v", within)
				}
				if len(within) == 0 {
					continue
				}
				asked[c] = true
				if left := window - step; within[0] <= 0 || within[0] >= left {
					t.Fatalf("after %v of %v it is to move within %v", step, window, within[0])
				}
			}
			if most := n/10 + int(step*n/(window/2)); len(asked) > most {
				t.Fatalf("after %v %d were asked, want at most %d", step, len(asked), most)
			}
			time.Sleep(window / 20)
		}
		if len(asked) != n {
			t.Errorf("%d of %d were asked", len(asked), n)
		}
	})
}

func TestDrainTellsTimesThatMakeSense(t *testing.T) {
	inWorld(t, func(w *world) {
		clients := w.several(3)
		w.b.Drain(math.MaxInt64)
		time.Sleep(time.Second)
		for _, c := range clients {
			if d := one[session.Draining](c); d.Within <= 0 {
				t.Errorf("got %v", d.Within)
			}
		}
	})
}

// A drain that is taken back asks nobody any more, and a second one asks those who are still here once more.
func TestNobodyIsAskedAfterADrainWasTakenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		clients := w.several(100)
		count := func() (n int) {
			for _, c := range clients {
				n += len(c.asked())
			}
			return n
		}
		w.b.Drain(20 * time.Second)
		time.Sleep(100 * time.Millisecond)
		w.b.Undrain()
		if n := count(); n == 0 || n > 60 {
			t.Fatalf("%d were asked in the first half", n)
		}
		time.Sleep(10 * time.Second)
		if n := count(); n > 0 {
			t.Errorf("%d were asked after the drain was taken back", n)
		}
		w.b.Drain(20 * time.Second)
		w.b.Drain(20 * time.Second)
		time.Sleep(10 * time.Second)
		if n := count(); n < 100 || n > 101 {
			t.Errorf("%d were asked by the last of two drains, want each once", n)
		}
	})
}

// A session whose client has left its stream goes on elsewhere, with its locks. A replica that drains does not wait for
// it.
func TestADrainDoesNotWaitForSessionsWithoutAStream(t *testing.T) {
	inWorld(t, func(w *world) {
		idle := func() bool {
			synctest.Wait()
			select {
			case <-w.b.Idle():
				return true
			default:
				return false
			}
		}
		before, c := w.leaving(), w.leaving()
		before.take("another")
		before.Detach(errCut)
		c.take("job")
		if n := w.b.Drain(time.Minute); n != 1 {
			t.Errorf("%d were asked, want the one with a stream", n)
		}
		if _, err := w.b.Open(session.OpenRequest{}); !errors.Is(err, session.ErrDraining) {
			t.Errorf("got %v, want ErrDraining", err)
		}
		if idle() {
			t.Error("idle while a session has a stream")
		}
		c.Detach(errCut)
		if !idle() {
			t.Error("not idle although no session has a stream")
		}
		w.b.Undrain()
		if idle() {
			t.Error("idle, and does not drain")
		}
		w.b.Drain(time.Minute)
		if !idle() {
			t.Error("not idle in the second drain")
		}
	})
}

// A stream that is old is to be left, at different moments; one that is left is not asked any more.
func TestOldStreamsAreToBeLeft(t *testing.T) {
	const age = 40 * time.Minute
	cfg := testConfig()
	cfg.Session.MaxStreamAge = age
	inWorldWith(t, cfg, func(w *world) {
		var moments []time.Duration
		clients := w.several(50)
		gone := w.leaving()
		gone.take("job")
		gone.Detach(errCut)
		begun := time.Now()
		for time.Since(begun) <= age+10*time.Second {
			for _, c := range clients {
				c.Hear()
				if within := c.asked(); len(within) > 0 {
					moments = append(moments, time.Since(begun))
					if within[0] != age/10 {
						t.Errorf("told %v", within[0])
					}
				}
			}
			time.Sleep(10 * time.Second)
		}
		slices.Sort(moments)
		if n := len(moments); n < 50 || n > 60 || moments[0] < age/4*3 {
			t.Fatalf("asked at %v", moments)
		}
		if first, last := moments[0], moments[49]; last-first < age/8 {
			t.Errorf("all were asked from %v to %v", first, last)
		}
		gone.none()
		c := clients[0]
		moved, _ := w.resume(c.resumption(2, nil))
		moved.asked()
		for range 100 { // the age of the new stream counts
			moved.Hear()
			if within := moved.asked(); len(within) > 0 {
				t.Fatalf("a new stream is to be left within %v", within)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

func TestStreamsMayBecomeOldWithoutALimit(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		time.Sleep(tier.Pick(2*time.Hour, 100*time.Hour))
		if got := c.events(); len(got) > 0 {
			t.Errorf("told %v", got)
		}
		c.takeAs(request.Acquire{Name: "job"})
	})
}
