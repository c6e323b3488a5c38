package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// While the store has not answered, the earlier end counts already; if nothing was done the old one does again.
func TestTheEarlierEndCountsFromTheRequestOn(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.takeAs(request.Acquire{Name: "door", Kind: lock.Exclusive, Lease: new(time.Hour)})
		auto := c.take("auto")
		w.store.on("Shorten", func(func() error) error { time.Sleep(2 * time.Second); return lock.ErrUnavailable })
		for _, h := range []session.Hold{g.Hold, auto.Hold} {
			c.Extend(c.id(), request.Extend{Hold: h, Lease: new(time.Minute), MayShorten: true})
			synctest.Wait()
			if l := c.allHolds(h.Name, 10)[0]; time.Until(l.Validity.Until) > time.Minute {
				t.Errorf("got %+v, want the earlier end", l)
			}
			time.Sleep(2 * time.Second)
			c.failed(lock.ErrUnavailable)
		}
		if l := c.allHolds("door", 10)[0]; time.Until(l.Validity.Until) < 50*time.Minute {
			t.Errorf("got %+v, want the old end", l)
		}
		c.Extend(c.id(), request.Extend{Hold: g.Hold, Lease: new(time.Second), MayShorten: true})
		time.Sleep(3 * time.Second)
		if events := c.events(); len(events) != 2 { // lost at the earlier end, then the answer
			t.Errorf("got %#v, want Lost and Failed", events)
		}
	})
}
