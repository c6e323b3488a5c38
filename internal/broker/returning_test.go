package broker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// What anybody publishes ends nothing by itself.
func TestAMessageAloneEndsNoSession(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		c.take("job")
		for _, m := range []string{fmt.Sprintf(`{"session":%q,"epoch":7}`, c.ID()), `{"session":"?"}`, "nonsense", ""} {
			if _, err := w.store.Publish(w.t.Context(), "moved", []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		c.none()
		c.take("another")
	})
}

// Many sessions come at once. The store is asked for few of their holds at a time, and who waits too long is told to
// come again.
func TestAStormOfSessionsThatComeBackIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		const sessions, each = 250, 10
		requests := make([]session.ResumeRequest, sessions)
		for i := range requests {
			c := w.leaving()
			var holds []session.Hold
			for n := range each {
				holds = append(holds, c.take(fmt.Sprint(i, " ", n)).Hold)
			}
			c.Detach(errCut)
			requests[i] = c.resumption(2, claims(true, holds...))
		}
		other, store := w.severable()
		var now, most, resumed, refused atomic.Int64
		store.on("Extend", func(next func() error) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			time.Sleep(2 * time.Second)
			return next()
		})
		begun := time.Now()
		var all sync.WaitGroup
		for _, req := range requests {
			all.Go(func() {
				switch _, lost, err := other.b.Resume(w.t.Context(), req); {
				case err == nil && len(lost) == 0:
					resumed.Add(1)
				case isError(err, session.ErrQuota):
					refused.Add(1)
				default:
					t.Errorf("%v, lost %v", err, lost)
				}
			})
		}
		all.Wait()
		took := time.Since(begun)
		t.Logf("%d holds at a time, %d sessions resumed, %d refused, in %v", most.Load(), resumed.Load(), refused.Load(),
			took)
		// Who is let in has waited for 10 s at most. 64 at a time have 640 holds: three turns of 256, each of 2 s.
		if most.Load() > 256 || resumed.Load() < 75 || refused.Load() < 25 || took > 16*time.Second {
			t.Error("want 256 holds at a time at most, some sessions refused, and most resumed")
		}
	})
}

// Many sessions come at once that name very many holds, whether they have them or not. One with a single hold comes
// back all the same.
func TestWhoBringsMuchKeepsNobodyFromComingBack(t *testing.T) {
	inWorld(t, func(w *world) {
		const sessions, each = 100, 500
		var requests []session.ResumeRequest
		for range sessions {
			var holds []session.Hold
			for i := range each {
				holds = append(holds, session.Hold{Name: name(i), Kind: lock.Exclusive, Holder: "#1", Fence: 1, AcquiredBy: 1})
			}
			c := w.leaving()
			c.id() // such a request
			c.Detach(errCut)
			requests = append(requests, c.resumption(2, claims(true, holds...)))
		}
		c := w.leaving()
		hold := c.take("job").Hold
		c.Detach(errCut)
		other, store := w.severable()
		store.inOrder("Extend", late(100*time.Millisecond))
		ctx, cancel := context.WithCancel(w.t.Context())
		var all sync.WaitGroup
		for _, req := range requests {
			all.Go(func() {
				if _, _, err := other.b.Resume(ctx, req); !errors.Is(err, context.Canceled) {
					t.Errorf("it did not last: %v", err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		begun := time.Now()
		_, lost, err := other.b.Resume(w.t.Context(), c.resumption(2, claims(true, hold)))
		if took := time.Since(begun); err != nil || len(lost) > 0 || took > time.Second {
			t.Errorf("%v, lost %v, after %v", err, lost, took)
		}
		cancel()
		all.Wait()
	})
}

// Sessions that wait for their turn name no more holds than the memory has room for. One more is told so at once, and
// comes back when others have gone; one with a single hold comes back all the same.
func TestWhoWaitsToComeBackBringsNoMoreThanThereIsRoomFor(t *testing.T) {
	inWorld(t, func(w *world) {
		const each, most = 20_000, 500_000 / 20_000
		holds := make([]session.Hold, each)
		for i := range holds {
			holds[i] = session.Hold{Name: name(i), Kind: lock.Exclusive, Holder: "#1", Fence: 1, AcquiredBy: 1}
		}
		known := claims(true, holds...)
		laden := func() session.ResumeRequest {
			c := w.leaving()
			c.id()
			c.Detach(errCut)
			return c.resumption(2, slices.Clone(known))
		}
		c := w.leaving()
		hold := c.take("job").Hold
		c.Detach(errCut)
		other, store := w.severable()
		store.inOrder("Extend", late(time.Second))
		ctx, cancel := context.WithCancel(w.t.Context())
		var all sync.WaitGroup
		var requests []session.ResumeRequest
		for range most {
			requests = append(requests, laden())
		}
		again := laden()
		synctest.Wait()
		for _, req := range requests {
			all.Go(func() {
				if _, _, err := other.b.Resume(ctx, req); !errors.Is(err, context.Canceled) {
					t.Errorf("it did not last: %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		begun := time.Now()
		_, _, err := other.b.Resume(w.t.Context(), again)
		if took := time.Since(begun); !isError(err, session.ErrQuota) || took > 0 {
			t.Errorf("%v after %v, want that it is refused at once", err, took)
		}
		if _, lost, err := other.b.Resume(w.t.Context(), c.resumption(2, claims(true, hold))); err != nil || len(lost) > 0 {
			t.Errorf("%v, lost %v", err, lost)
		}
		cancel()
		all.Wait()
		store.onCall("Extend", nil)
		if _, lost, err := other.b.Resume(w.t.Context(), again); err != nil || len(lost) != each {
			t.Errorf("%v, %d lost", err, len(lost))
		}
	})
}

// A store that is away is not asked for each hold of a session.
func TestVerifyingStopsWhenTheStoreIsAway(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		var holds []session.Hold
		for i := range 90 {
			holds = append(holds, c.take(name(i)).Hold)
		}
		c.Detach(errCut)
		other, store := w.severable()
		var asked atomic.Int64
		store.on("Extend", func(func() error) error {
			asked.Add(1)
			time.Sleep(time.Second)
			return fmt.Errorf("%w: in this test", lock.ErrUnavailable)
		})
		other.resumeErr(c.resumption(2, claims(true, holds...)), lock.ErrUnavailable)
		if n := asked.Load(); n > 64 {
			t.Errorf("asked %d times", n)
		}
	})
}

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

// What a session with very many locks releases at its end goes to the store in turn, and leaves others their way. All
// of it is released before the session is done, also what is taken once more meanwhile, what is over by then, and
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
