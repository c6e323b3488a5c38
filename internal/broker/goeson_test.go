package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A release that the store cannot do now goes on. Nobody is told that surely nothing was done, and goes on to use what
// is taken away a moment later.
func TestAReleaseThatGoesOnIsNotToldAsNotDone(t *testing.T) {
	for _, cause := range []error{lock.ErrUnavailable, lock.ErrNoQuorum, lock.ErrStoreFull} {
		inWorld(t, func(w *world) {
			c := w.alive()
			permits := c.takeAs(request.Acquire{Name: "pool", Kind: lock.Semaphore, Permits: 3, Limit: 3}).Hold
			hold := c.take("task").Hold
			req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: ownID, Lease: time.Hour}
			w.mustOnce(req)
			w.store.on("Release", func(func() error) error { return cause })
			if _, err := w.b.ReleaseOnce(req); !isError(err, lock.ErrOutcomeUnknown) || !isError(err, cause) {
				t.Errorf("a unary lease: got %v, want an unknown outcome", err)
			}
			for what, release := range map[string]func(id uint64){
				"a lock":  func(id uint64) { c.Release(id, hold) },
				"permits": func(id uint64) { c.ReleasePermits(id, request.Release{Hold: permits, Keep: 1}) },
			} {
				release(c.id())
				if err := one[session.Failed](c).Err; !isError(err, lock.ErrOutcomeUnknown) || !isError(err, cause) {
					t.Errorf("%s: got %v, want an unknown outcome", what, err)
				}
			}
			w.store.well()
			time.Sleep(30 * time.Second)
			w.free("job")
			w.free("task")
		})
	}
}
