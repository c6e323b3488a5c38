package broker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// hesitant is a store that does not answer the first calls that pass on a place.
type hesitant struct {
	lock.Store
	left  atomic.Int64 // of them
	error error
}

func (h *hesitant) Succeed(ctx context.Context, name string, from, to lock.Owner, place time.Duration) error {
	if h.left.Add(-1) >= 0 {
		return h.error
	}
	return h.Store.Succeed(ctx, name, from, to, place)
}

// A place is passed on although the store does not answer at first: the one behind waits longer, and no longer than the place lasts.
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
			slow := &hesitant{Store: w.store, error: row.error}
			slow.left.Store(row.fails)
			holder, behind, other := w.alive(), w.alive(), start(w.t, testConfig(), &faults{Store: slow})
			req := request.Acquire{Name: "job", Kind: lock.Fair}
			holder.acquire(req)
			hold := one[session.Granted](holder).Hold
			c := w.leaving()
			again := req
			again.InsteadOf = c.acquire(req)
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
