package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// The keeper has the renewals' way to the store for itself.
func TestNothingThatClientsAskForUsesTheWayOfRenewals(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		fixed := time.Minute
		c.acquire(request.Acquire{Name: "fixed", Kind: lock.Exclusive, Lease: &fixed})
		hold := one[session.Granted](c).Hold
		c.Extend(c.id(), request.Extend{Hold: hold, Lease: new(2 * time.Minute)})
		one[session.Extended](c)

		once := request.Once{
			Name: "once", Kind: lock.Exclusive, Lease: time.Minute, LeaseID: "ABCDEFGHIJKLMNOPQRSTUV",
		}
		if _, refused, err := w.b.AcquireOnce(w.t.Context(), once); refused != nil || err != nil {
			w.t.Fatal(refused, err)
		}
		if _, err := w.b.ExtendOnce(request.Once{
			Name: once.Name, Kind: once.Kind, LeaseID: once.LeaseID,
			Lease: time.Minute,
		}); err != nil {
			w.t.Error(err)
		}
		c.queue("once")
		if _, refused, err := w.b.AcquireOnce(w.t.Context(), once); refused != nil || err != nil {
			w.t.Error("repeated:", refused, err)
		}
		if n := w.store.renewals.Load(); n != 0 {
			w.t.Errorf("%d calls of Renew, want none", n)
		}
	})
}
