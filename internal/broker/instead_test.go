package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A fair request was granted just before its stream broke, and nobody heard of that. It is made again where another
// request waits for its name, and is refused or left: then it has nothing, and the other one need not wait for the end
// of a lease that nobody knows of.
func TestWhatARequestSucceededToIsNotKeptIfItIsNotGranted(t *testing.T) {
	lease, now := time.Hour, time.Duration(0)
	fair := request.Acquire{Name: "job", Kind: lock.Fair, Lease: &lease}
	for how, end := range map[string]func(back *client, again request.Acquire){
		"refused": func(back *client, again request.Acquire) {
			again.Wait = &now
			back.acquire(again)
		},
		"cancelled": func(back *client, again request.Acquire) {
			target := back.acquire(again)
			back.Cancel(back.id(), target)
		},
		"withdrawn": func(back *client, again request.Acquire) {
			back.acquire(again)
			back.Goodbye()
		},
	} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.leaving()
				id := c.acquire(fair)
				one[session.Granted](c)
				c.Detach(errCut)
				w.store.on("Succeed", func(next func() error) error {
					err := next()
					time.Sleep(time.Second)
					return err
				})
				other := w.replica()
				waits := other.alive()
				waits.acquire(fair)
				waits.events()
				back, _ := other.resume(c.resumption(2, nil))
				again := fair
				again.InsteadOf = []uint64{id}
				end(back, again)
				time.Sleep(3 * time.Second)
				for _, e := range back.events() {
					if isGranted(e) {
						t.Fatalf("got %#v", e)
					}
				}
				waits.grantedWithin(20 * time.Second)
			})
		})
	}
}
