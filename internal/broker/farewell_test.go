package broker_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
)

// What a session with very many locks gives back at its end goes to the store in turn, and leaves others their way. All
// of it is given back before the session is done, also what is taken once more meanwhile, what is over by then, and
// what the store loses a reply for.
func TestASessionThatEndsReleasesAFewAtATime(t *testing.T) {
	inWorld(t, func(w *world) {
		const n = 700
		c := w.alive()
		for i := range n {
			c.acquire(request.Acquire{Name: fmt.Sprint("job ", i), Holder: "me"})
		}
		c.events()
		var underWay, most, calls atomic.Int64
		w.store.on("Release", func(next func() error) error {
			most.Store(max(most.Load(), underWay.Add(1)))
			defer underWay.Add(-1)
			time.Sleep(10 * time.Millisecond)
			if calls.Add(1)%50 == 0 {
				_ = next()
				return errUnknown
			}
			return next()
		})
		for i := range 5 {
			c.acquire(request.Acquire{Name: fmt.Sprint("job ", i), Holder: "me"})
		}
		if _, err := w.b.ForceRelease(t.Context(), "job 6", lock.Exclusive); err != nil {
			t.Fatal(err)
		}
		c.Goodbye()
		begun := time.Now()
		<-c.Done()
		if took := time.Since(begun); took > time.Second || c.Cause() != nil {
			t.Errorf("it took %v, and ended with %v", took, c.Cause())
		}
		synctest.Wait()
		if most.Load() > 150 || most.Load() < 100 {
			t.Errorf("%d locks were released at a time, want about 128", most.Load())
		}
		for i := range n {
			w.free(fmt.Sprint("job ", i))
		}
	})
}
