package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Whatever finds that a hold is gone, and whoever has the name by then: lost data are told as lost data, and a forced
// release as that.
func TestALostHoldIsToldWithItsReasonWhateverFindsIt(t *testing.T) {
	mine := request.Acquire{Name: "job", Holder: "me"}
	for what, find := range map[string]func(c *client, h session.Hold){
		"a renewal":               func(*client, session.Hold) { time.Sleep(30 * time.Second) },
		"a further hold":          func(c *client, _ session.Hold) { c.acquire(mine) },
		"a release of one of two": func(c *client, h session.Hold) { c.Release(c.id(), h) },
		"an extension":            func(c *client, h session.Hold) { c.Extend(c.id(), request.Extend{Hold: h}) },
	} {
		for reason, lose := range map[lock.LostReason]func(w *world){
			lock.LostData: func(w *world) { w.lose() },
			lock.LostForced: func(w *world) {
				// Not by this replica, which would hear of it.
				w.store.Store.(interface{ Expire(name string) }).Expire("job")
			},
		} {
			t.Run(what+" "+reason.String(), func(t *testing.T) {
				inWorld(t, func(w *world) {
					c := w.alive()
					c.acquire(mine)
					one[session.Granted](c)
					c.acquire(mine)
					h := one[session.Granted](c).Hold
					lose(w)
					w.takenByAnother("job")
					find(c, h)
					for _, e := range c.events() {
						if lost, ok := e.(session.Lost); ok {
							if lost.Reason != reason {
								t.Errorf("got %v", lost.Reason)
							}
							return
						}
					}
					t.Error("it was not told")
				})
			})
		}
	}
}

// takenByAnother takes a name past the broker.
func (w *world) takenByAnother(name string) {
	w.t.Helper()
	_, err := w.store.Store.Acquire(w.t.Context(), lock.Claim{
		Name: name, Kind: lock.Exclusive, Owner: "another", Count: 1, TTL: time.Minute,
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
