package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Very many tries may follow one that waits while the store is slow to answer. When it refuses that one they are all
// refused, and others of the same part of the names get their turn in between.
func TestVeryManyFollowersAreRefusedInPieces(t *testing.T) {
	inWorld(t, func(w *world) {
		const tries = 1000
		permit := request.Acquire{Name: "job", Kind: lock.Semaphore, Permits: 1, Limit: 1}
		holder := w.replica().open()
		w.t.Cleanup(holder.beats())
		holder.acquire(permit)
		one[session.Granted](holder)
		first, others := w.alive(), w.alive()
		first.acquire(permit)
		one[session.Queued](first)
		w.store.on("Acquire", func(next func() error) error {
			time.Sleep(2 * time.Second)
			return next()
		})
		time.Sleep(10*time.Second + 100*time.Millisecond) // the first one is asked for again
		permit.Wait = new(time.Duration)
		for range tries {
			others.acquire(permit)
		}
		others.none()
		if all, atOnce := w.b.RefuseFollowers("job"); all != tries || atOnce == 0 || atOnce > tries/3 {
			t.Errorf("of %d tries that follow, %d, %d are refused at once", tries, all, atOnce)
		}
		refused := 0
		for _, e := range others.events() {
			if n, ok := e.(session.NotGranted); ok && isError(n.Cause, lock.ErrHeld) {
				refused++
			}
		}
		if refused != tries {
			t.Errorf("%d of %d tries are refused", refused, tries)
		}
	})
}
