package broker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
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

func TestAUnaryLeaseGivesSomePermitsBack(t *testing.T) {
	inWorld(t, func(w *world) {
		lease, refused, err := w.b.AcquireOnce(w.t.Context(), request.Once{
			Name: "pool", Kind: lock.Semaphore, Permits: 4, Limit: 5, Lease: time.Hour,
		})
		if err != nil || refused != nil {
			t.Fatal(refused, err)
		}
		for _, row := range []struct{ keep, left uint32 }{{3, 3}, {3, 3}, {1, 1}, {2, 1}, {0, 0}} {
			left, err := w.b.ReleaseOnce(request.Once{
				Name: "pool", Kind: lock.Semaphore, LeaseID: lease.LeaseID, Keep: row.keep,
			})
			if err != nil || left != row.left {
				t.Errorf("keeping %d: got %d and %v, want %d", row.keep, left, err, row.left)
			}
			w.out(row.left)
		}
		for _, keep := range []uint32{0, 1} {
			if _, err := w.b.ReleaseOnce(request.Once{
				Name: "pool", Kind: lock.Semaphore, LeaseID: lease.LeaseID, Keep: keep,
			}); !errors.Is(err, lock.ErrNotHeld) {
				t.Errorf("got %v, want not held", err)
			}
		}
		if _, err := w.b.ReleaseOnce(request.Once{
			Name: "door", Kind: lock.Exclusive, LeaseID: lease.LeaseID, Keep: 1,
		}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("got %v, want invalid", err)
		}
	})
}
