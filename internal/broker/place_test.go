package broker_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A session moves twice, and the replica between has not answered a request that waits. Its place may be that of the
// request as it was before, or as it was there.
func TestAPlaceIsKeptWhenAReplicaIsLeftBeforeItAnswered(t *testing.T) {
	later := make(chan func(), 1)
	var asked atomic.Int64
	for what, between := range map[string]func(done func() error) error{
		"not done":            fails(lock.ErrUnavailable),
		"done, and not heard": lose(1 << 20),
		"done":                late(0),
		"done late": func(done func() error) error {
			if asked.Add(1) == 1 {
				later <- func() { _ = done() }
			}
			return lock.ErrOutcomeUnknown
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				there, store := w.severable()
				store.on("Succeed", between)
				holder, behind, last := w.alive(), w.alive(), w.replica()
				req := request.Acquire{Name: "job", Kind: lock.Fair}
				holder.acquire(req)
				hold := one[session.Granted](holder).Hold
				c := w.leaving()
				first := c.acquire(req)
				one[session.Queued](c)
				behind.acquire(req)
				one[session.Queued](behind)
				c.Detach(errCut)
				next := req
				next.InsteadOf = []uint64{first}
				left, _ := there.resume(c.resumption(2, nil))
				second := left.acquire(next)
				synctest.Wait()
				left.Detach(errCut)
				time.Sleep(time.Second)
				next.InsteadOf = []uint64{first, second}
				back, _ := last.resume(left.resumption(3, nil))
				back.acquire(next)
				one[session.Queued](back)
				select {
				case done := <-later:
					done()
				default:
				}
				holder.release(hold)
				synctest.Wait()
				behind.none()
				back.release(one[session.Granted](back).Hold)
				synctest.Wait()
				time.Sleep(10 * time.Second) // whatever the replica between keeps alive
				one[session.Granted](behind)
			})
		})
	}
}
