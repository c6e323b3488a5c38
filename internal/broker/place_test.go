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

// A place is passed on although the store does not answer at first: the one behind waits longer, and no longer than the
// place lasts.
func TestAPlaceIsPassedOnWhenTheStoreAnswersAgain(t *testing.T) {
	for _, row := range []struct {
		fails int64
		error error
		kept  bool
	}{
		{3, lock.ErrUnavailable, true},
		{3, lock.ErrOutcomeUnknown, true},
		{1 << 20, lock.ErrUnavailable, false},
	} {
		inWorld(t, func(w *world) {
			holder, behind := w.alive(), w.alive()
			other, store := w.severable()
			store.on("Succeed", func(next func() error) error {
				if row.fails--; row.fails >= 0 {
					return row.error
				}
				return next()
			})
			req := request.Acquire{Name: "job", Kind: lock.Fair}
			holder.acquire(req)
			hold := one[session.Granted](holder).Hold
			c := w.leaving()
			again := req
			again.InsteadOf = []uint64{c.acquire(req)}
			one[session.Queued](c)
			behind.acquire(req)
			one[session.Queued](behind)
			c.Detach(errCut)
			back, _ := other.resume(c.resumption(2, nil))
			back.acquire(again)
			time.Sleep(10 * time.Second)
			one[session.Queued](back)
			holder.release(hold)
			synctest.Wait()
			time.Sleep(time.Second)
			next := behind
			if row.kept {
				next = back
			}
			if got := next.events(); len(got) == 0 {
				t.Errorf("%+v: the other one is served first", row)
			}
		})
	}
}

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

// A fair request goes on at the replica whose session holds the lock. Nothing need be asked of the store there, and its
// place is not new; its client is told how many are before it all the same.
func TestARequestThatGoesOnIsToldItsPlace(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		req := request.Acquire{Name: "job", Kind: lock.Fair}
		holder, before := there.alive(), there.alive()
		holder.acquire(req)
		one[session.Granted](holder)
		before.acquire(req)
		one[session.Queued](before)
		c := w.leaving()
		again := req
		again.InsteadOf = []uint64{c.acquire(req)}
		one[session.Queued](c)
		c.Detach(errCut)
		back, _ := there.resume(c.resumption(2, nil))
		back.acquire(again)
		synctest.Wait()
		if q := one[session.Queued](back); q.Position != 1 {
			t.Errorf("it is told position %d, want 1", q.Position)
		}
	})
}
