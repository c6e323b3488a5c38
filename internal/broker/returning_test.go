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
