package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/session"
)

// TestTheWatchesOfOneAddressAreBounded has an address watch with many sessions, beside another one, and beside a client
// of the clients file whose quota is larger.
func TestTheWatchesOfOneAddressAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.WatchesPerAddress = 6
	inWorldWith(t, cfg, func(w *world) {
		who := &someone{name: "billing"}
		w.b.Review(false, limits.Allowances{who.opening().Client.Tenant: {Watches: 9}})
		for _, row := range []struct {
			open    session.OpenRequest
			most    int
			subject string
		}{
			{session.OpenRequest{Client: session.Client{Tenant: "10.0.0.1"}}, 6, "watches_per_address"},
			{session.OpenRequest{Client: session.Client{Tenant: "10.0.0.2"}}, 6, "watches_per_address"},
			{who.opening(), 9, "client_watches"},
		} {
			two := [2]*client{w.openWith(row.open), w.openWith(row.open)}
			watch := func(i int) error {
				two[i%2].Watch(two[i%2].id(), fmt.Sprint("name-", i))
				synctest.Wait()
				all := two[i%2].events()
				e, _ := all[len(all)-1].(session.Failed)
				return e.Err
			}
			for i := range row.most {
				if err := watch(i); err != nil {
					t.Fatalf("watch %d of %s: %v", i, row.subject, err)
				}
			}
			for i := range 2 {
				err := watch(row.most + i)
				if q, ok := errors.AsType[*session.QuotaError](err); !ok || q.Subject != row.subject || q.Limit != row.most {
					t.Errorf("one more: got %v, want it refused as %s", err, row.subject)
				}
			}
			two[0].Unwatch(two[0].id(), "name-0")
			if err := watch(row.most + 1); err != nil {
				t.Errorf("instead of one that was released: %v", err)
			}
		}
	})
}
