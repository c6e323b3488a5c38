package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// extend changes a lease and returns for how long it can then be trusted.
func (c *client) extend(h session.Hold, lease *time.Duration, mayShorten bool) time.Duration {
	c.t.Helper()
	c.Extend(c.id(), request.Extend{Hold: h, Lease: lease, MayShorten: mayShorten})
	return time.Until(one[session.Extended](c).Validity.Until)
}

// about checks a validity: what was set, less the margin.
func (c *client) about(got, want time.Duration) {
	c.t.Helper()
	if got > want || got < want-want/50-3*time.Millisecond {
		c.t.Fatalf("valid for %v, want about %v", got, want)
	}
}

// A renewal that was sent before the lease was shortened, and comes after it, does not make it longer for anybody.
func TestALateRenewalDoesNotUndoAShortening(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.alive(), w.replica().alive()
		g := c.take("door")
		renewing, free := make(chan struct{}), make(chan struct{})
		w.store.on("Renew", func(next func() error) error { renewing <- struct{}{}; <-free; return next() })
		<-renewing
		w.store.onCall("Renew", nil)
		other.queueAs(request.Acquire{Name: "door", Kind: lock.Exclusive})
		c.about(c.extend(g.Hold, new(3*time.Second), true), 3*time.Second)
		time.Sleep(time.Second)
		close(free)
		synctest.Wait()
		if st := w.look("door"); st.TTL < 10*time.Second {
			t.Fatalf("%v remain: the renewal did nothing, so this tests nothing", st.TTL)
		}
		time.Sleep(2 * time.Second)
		one[session.Lost](c)
		other.grantedWithin(2 * time.Second) // what the renewal prolonged is given back
	})
}

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
