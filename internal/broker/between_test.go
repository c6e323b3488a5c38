package broker_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
	"github.com/lockd-io/lockd/internal/tier"
)

// What is done with several mutexes, one after the other, must not be seen half done. These tests look in between.

// beat sends heartbeats, whose answers are not merged, as fast as they are read until stop is closed.
func (c *client) beat(wg *sync.WaitGroup, stop chan struct{}) {
	always := make(chan struct{})
	close(always)
	for range 3 {
		wg.Go(func() {
			for {
				relief := c.Outbox().Pressure()
				if relief == nil {
					c.Heartbeat(1, 1)
					relief = always
				}
				select {
				case <-relief:
				case <-stop:
					return
				}
			}
		})
	}
}

// TestAHeartbeatSpeaksOfEachLeaseThatItsClientTakesForAuto makes an auto lease fixed and short while heartbeats are
// answered. Until its client is told, the answers must not promise more than the short lease.
// It fails if the lease is counted and its client told in two steps (Session.TellChanged).
func TestAHeartbeatSpeaksOfEachLeaseThatItsClientTakesForAuto(t *testing.T) {
	store := &faults{Store: memstore.New()}
	store.inOrder("Shorten", late(200*time.Microsecond))
	w := start(t, testConfig(), store)
	c := w.open()
	c.Acquire(c.id(), request.Acquire{Name: "long", Kind: lock.Exclusive})
	id := c.id()
	c.Acquire(id, request.Acquire{Name: "short", Kind: lock.Exclusive})
	var hold session.Hold
	c.until(func(e session.Event) bool {
		g, ok := e.(session.Granted)
		hold = g.Hold
		return ok && g.ID == id
	})
	var wg sync.WaitGroup
	for range tier.Pick(50, 300) {
		stop := make(chan struct{})
		c.beat(&wg, stop)
		id := c.id()
		c.Extend(id, request.Extend{Hold: hold, Lease: new(5 * time.Second), MayShorten: true})
		var acks []time.Time
		var end time.Time
		c.until(func(e session.Event) bool {
			switch e := e.(type) {
			case session.HeartbeatAck:
				acks = append(acks, e.Until)
			case session.Extended:
				end = e.Validity.Until
			}
			return !end.IsZero()
		})
		close(stop)
		wg.Wait()
		short := false
		for _, until := range acks {
			if short && until.After(end) {
				t.Fatalf("a heartbeat was told that all leases last %v longer than one of them", until.Sub(end))
			}
			short = short || !until.After(end)
		}
		id = c.id()
		c.Extend(id, request.Extend{Hold: hold})
		c.until(func(e session.Event) bool { x, ok := e.(session.Extended); return ok && x.ID == id })
	}
}

// startLate is a replica on a store that answers acquisitions after the time that Close waits for it, and does not know
// what became of them.
func startLate(t *testing.T) *world {
	store := &faults{Store: memstore.New()}
	store.on("Acquire", func(next func() error) error {
		_ = next()
		time.Sleep(2 * time.Second)
		return errUnknown
	})
	return start(t, testConfig(), store)
}

// TestCloseWaitsForWhatAnAnswerBegins has answers come in the moment in which everything else is over.
// It fails, or panics, if Close waits for the goroutines before the answers.
func TestCloseWaitsForWhatAnAnswerBegins(t *testing.T) {
	for range tier.Pick(50, 300) {
		synctest.Test(t, func(t *testing.T) {
			w := startLate(t)
			c := w.open()
			for i := range 20 {
				c.acquire(request.Acquire{Name: name(i)})
			}
			if err := w.b.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAClosingBrokerStaysSo asks a broker that is about to close to accept sessions again.
// It fails if Undrain looks at Broker.closed only.
func TestAClosingBrokerStaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startLate(t)
		w.open().acquire(request.Acquire{Name: "x"})
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = w.b.Close(context.Background())
		}()
		time.Sleep(time.Second)
		if w.b.Undrain() {
			t.Error("it accepts sessions")
		}
		if _, err := w.b.Open(session.OpenRequest{}); err == nil {
			t.Error("it opened a session")
		}
		<-closed
	})
}

// What is released when the validity of a lost lease has ended does not keep the replica from stopping.
func TestAWriteHoldThatWasFreedByForceKeepsNoReplicaFromStopping(t *testing.T) {
	inWorld(t, func(w *world) {
		there, _ := w.severable()
		c := there.open()
		c.takeAs(request.Acquire{Name: "job", Kind: lock.Write, Lease: new(10 * time.Minute)})
		_, err := there.b.ForceRelease(w.t.Context(), "job", lock.Write)
		must(w.t, err)
		time.Sleep(time.Second)
		c.Goodbye()
		begun := time.Now()
		must(w.t, there.b.Close(w.t.Context()))
		if took := time.Since(begun); took > time.Second {
			w.t.Errorf("it took %v", took)
		}
		time.Sleep(15 * time.Minute) // nothing is done then
	})
}
