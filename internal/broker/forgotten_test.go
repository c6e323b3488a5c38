package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A server that takes the place of another one may have a hold and have forgotten that it was extended. Once the store
// is back the hold lasts as long as its holder was told, and nobody else gets the name before.
func TestAStoreThatForgotAnExtensionIsToldOfIt(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Read, lock.Write, lock.Semaphore} {
		t.Run(k.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				var made lock.Renewal
				w.store.onCall("Extend", func(c call) error {
					made = c.arg.(lock.Renewal) //nolint:forcetypeassert // the test fails
					return c.do()
				})
				holder, other := w.alive(), w.alive()
				first := request.Acquire{Name: "job", Kind: k, Lease: new(10 * time.Second)}
				second := request.Acquire{Name: "job", Kind: lock.Exclusive, Wait: new(time.Duration)}
				switch k {
				case lock.Semaphore:
					first.Permits, first.Limit = 1, 1
					second.Kind, second.Permits, second.Limit = k, 1, 1
				case lock.Read, lock.Write:
					second.Kind = lock.Write
				default:
					second.Kind = k
				}
				holder.acquire(first)
				granted := one[session.Granted](holder)
				holder.Extend(holder.id(), request.Extend{Hold: granted.Hold, Lease: new(3 * time.Minute)})
				one[session.Extended](holder)

				w.store.setDown(lock.ErrUnavailable)
				time.Sleep(3 * time.Second)
				made.TTL = 5 * time.Second // what the other server knows of it
				must(t, w.store.Store.Shorten(t.Context(), made))
				w.store.setDown(nil)
				time.Sleep(2 * time.Minute)

				other.acquire(second)
				e := other.await()
				if _, ok := e.(session.NotGranted); !ok {
					t.Errorf("got %#v while another one believes to hold it", e)
				}
				time.Sleep(70 * time.Second) // and not for longer
				other.acquire(second)
				e = other.await()
				if _, ok := e.(session.Granted); !ok {
					t.Errorf("got %#v when the lease is over", e)
				}
			})
		})
	}
}
