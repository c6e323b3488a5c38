package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// reduce gives permits back and keeps some.
func (c *client) reduce(h session.Hold, keep uint32) {
	c.t.Helper()
	c.ReleasePermits(c.id(), request.Release{Hold: h, Keep: keep})
	got := one[session.Released](c)
	if got.Remaining != keep {
		c.t.Fatalf("%d permits are left, want %d", got.Remaining, keep)
	}
	// What stays is to be trusted for as long as the hold is said to last.
	if l := c.allHolds("", 10); len(l) != 1 || got.Validity != l[0].Validity || !got.Validity.Until.After(time.Now()) {
		c.t.Errorf("got validity %+v, want that of %+v", got.Validity, l)
	}
}

// out checks how many permits of the pool are out.
func (w *world) out(n uint32) {
	w.t.Helper()
	if st := w.look("pool"); st.Holders != n {
		w.t.Fatalf("%d permits are out, want %d", st.Holders, n)
	}
}

// A renewal that asked for all permits finds some of them gone. That is no loss.
func TestARenewalUnderWayDoesNotTakePermitsGivenBackForALoss(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.takeAs(permits(5, 5))
		renewing, go1 := make(chan struct{}), make(chan struct{})
		w.store.on("Renew", func(next func() error) error { renewing <- struct{}{}; <-go1; return next() })
		<-renewing
		w.store.onCall("Renew", nil)
		c.reduce(g.Hold, 2)
		close(go1)
		time.Sleep(time.Minute)
		c.none()
		w.out(2)
	})
}
