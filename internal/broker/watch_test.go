package broker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func (c *client) watch(name string) {
	c.t.Helper()
	c.Watch(c.id(), name)
	one[session.Done](c)
}

// hears fails unless these ends of holds, and nothing else, were told since the last time.
func (c *client) hears(want ...session.Unlocked) {
	c.t.Helper()
	var got []session.Unlocked
	for _, e := range c.events() {
		u, ok := e.(session.Unlocked)
		if !ok {
			c.t.Fatalf("got %#v, want only ends of holds", e)
		}
		if u.Fence == 0 && u.Hold == "" && u.Cause != lock.EndUnknown {
			c.t.Errorf("nothing tells %+v from another end", u)
		}
		u.Hold = ""
		got = append(got, u)
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("heard %+v, want %+v", got, want)
	}
}

func unlocked(name string, c lock.EndCause, f lock.Fence) session.Unlocked {
	return session.Unlocked{Name: name, Cause: c, Fence: f}
}

// settled waits until whatever is told twice would have been.
func settled() { time.Sleep(time.Minute) }

func TestWatchersHearOfEachReleaseOnceOnAnyReplica(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		here, elsewhere, holder := w.alive(), there.alive(), there.alive()
		here.watch("job")
		elsewhere.watch("job")
		var want []session.Unlocked
		for range 5 {
			g := holder.take("job")
			time.Sleep(time.Second)
			holder.release(g.Hold)
			want = append(want, unlocked("job", lock.EndReleased, g.Hold.Fence))
		}
		settled()
		here.hears(want...)
		elsewhere.hears(want...)
	})
}

func TestAHoldCountedSeveralTimesEndsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.alive()
		watcher.watch("job")
		req := request.Acquire{Name: "job", Holder: "h"}
		holder.acquire(req)
		g := one[session.Granted](holder)
		holder.acquire(req)
		one[session.Granted](holder)
		holder.release(g.Hold)
		settled()
		watcher.none()
		holder.release(g.Hold)
		settled()
		watcher.hears(unlocked("job", lock.EndReleased, g.Hold.Fence))
	})
}

func TestWatchersHearOfAHandOver(t *testing.T) {
	inWorld(t, func(w *world) {
		here, elsewhere, a, b := w.alive(), w.replica().alive(), w.alive(), w.alive()
		here.watch("job")
		elsewhere.watch("job")
		first := a.take("job")
		b.acquire(request.Acquire{Name: "job"})
		one[session.Queued](b)
		a.release(first.Hold)
		second := one[session.Granted](b)
		settled()
		want := unlocked("job", lock.EndHandedOver, first.Hold.Fence)
		here.hears(want)
		elsewhere.hears(want)
		b.release(second.Hold)
		settled()
		here.hears(unlocked("job", lock.EndReleased, second.Hold.Fence))
	})
}

// Each of many leases that run out on another replica is told, and at its time.
func TestWatchersHearOfEachExpiryInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.replica().alive()
		watcher.watch("job")
		for i := range 5 {
			time.Sleep(time.Duration(i) * 2700 * time.Millisecond) // free for a while, or not at all
			holder.acquire(request.Acquire{Name: "job", Lease: new(time.Second)})
			f := one[session.Granted](holder).Hold.Fence
			time.Sleep(999 * time.Millisecond)
			watcher.none()
			time.Sleep(51 * time.Millisecond)
			watcher.hears(unlocked("job", lock.EndExpired, f))
			one[session.Lost](holder)
		}
		settled()
		watcher.none()
	})
}

func TestEachReaderAndEachHoldOfPermitsEnds(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Read, lock.Semaphore} {
		t.Run(kind.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				watcher, a, b := w.alive(), w.replica().alive(), w.alive()
				req := request.Acquire{Name: "n", Kind: kind}
				if kind == lock.Semaphore {
					req.Permits, req.Limit = 3, 10
				}
				watcher.watch("n")
				a.acquire(req)
				first := one[session.Granted](a)
				req.Lease = new(4 * time.Second)
				b.acquire(req)
				second := one[session.Granted](b)
				a.release(first.Hold)
				watcher.hears(unlocked("n", lock.EndReleased, first.Hold.Fence))
				time.Sleep(4*time.Second + 50*time.Millisecond)
				f := second.Hold.Fence
				if kind == lock.Semaphore { // permits have no fences
					f = 0
				}
				settled()
				watcher.hears(unlocked("n", lock.EndExpired, f))
			})
		})
	}
}

// Permits have no fences, so several that end at the same instant are told apart by their owners.
func TestEachOfSeveralHoldsOfPermitsThatExpireTogetherIsTold(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, there := w.alive(), w.replica()
		watcher.watch("n")
		for range 3 {
			there.alive().acquire(request.Acquire{
				Name: "n", Kind: lock.Semaphore, Permits: 2, Limit: 10, Lease: new(4 * time.Second),
			})
		}
		settled()
		end := unlocked("n", lock.EndExpired, 0)
		watcher.hears(end, end, end)
	})
}

// What is told of the permits of a lease without a session has no fence either.
func TestPermitsThatExpireAreNotTakenForOthersThatWereReleased(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, there := w.alive(), w.replica()
		watcher.watch("n")
		there.alive().acquire(request.Acquire{
			Name: "n", Kind: lock.Semaphore, Permits: 1, Limit: 9,
			Lease: new(4 * time.Second),
		})
		time.Sleep(4*time.Second - time.Millisecond)
		claim := lock.Claim{Name: "n", Owner: "brief:unary", Kind: lock.Semaphore, TTL: time.Minute, Permits: 1, Limit: 9}
		if _, err := w.store.Acquire(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		back := lock.Return{Name: "n", Owner: claim.Owner, Kind: lock.Semaphore}
		if _, err := w.store.Release(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		settled()
		watcher.hears(unlocked("n", lock.EndReleased, 0), unlocked("n", lock.EndExpired, 0))
	})
}

func TestWatchersHearOfForcedReleasesDeletedKeysAndLostData(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.replica().alive()
		watcher.watch("job")
		memory := w.store.Store.(*memstore.Store)
		for _, end := range []struct {
			cause lock.EndCause
			by    func()
		}{
			{lock.EndForced, func() { _, _ = w.b.ForceRelease(t.Context(), "job", lock.Exclusive) }},
			{lock.EndForced, func() { memory.Expire("job") }},
			{lock.EndDataLoss, memory.Lose},
		} {
			f := holder.take("job").Hold.Fence
			time.Sleep(time.Second)
			end.by()
			time.Sleep(50 * time.Millisecond)
			watcher.hears(unlocked("job", end.cause, f))
			settled()
			watcher.none()
			one[session.Lost](holder)
		}
	})
}

// What is unlocked before the first look, and before the store is listened to, cannot be noticed.
func TestAWatchIsPromisedOnlyWhenTheNameWasLookedAt(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.open(), w.replica().open()
		g := holder.take("job")
		w.store.on("Look", late(time.Second))
		watcher.Watch(watcher.id(), "job")
		watcher.Watch(watcher.id(), "job")
		watcher.none()
		time.Sleep(time.Second)
		if events := watcher.events(); len(events) != 2 {
			t.Fatalf("got %#v, want both answers", events)
		}
		holder.release(g.Hold)
		watcher.hears(unlocked("job", lock.EndReleased, g.Hold.Fence))
	})
}

func TestAWatchThatEndsBeforeTheFirstLookIsAnswered(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher := w.open()
		w.store.on("Look", late(time.Second))
		watcher.Watch(watcher.id(), "job")
		watcher.Unwatch(watcher.id(), "job")
		if events := watcher.events(); len(events) != 2 {
			t.Errorf("got %#v, want both answers", events)
		}
		time.Sleep(time.Second)
		watcher.none()
	})
}

// It may have been unlocked since the answer, which nobody could see.
func TestAWatchBegunWithoutTheStoreTellsOfANameThatIsFreeLater(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher := w.alive()
		w.store.setDown(lock.ErrUnavailable)
		watcher.watch("job")
		w.store.setDown(nil)
		time.Sleep(time.Second)
		watcher.hears(unlocked("job", lock.EndUnknown, 0))
	})
}

func TestUnlocksAreMergedOnlyWhenTheClientDoesNotRead(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.alive()
		watcher.watch("job")
		const ends = 200
		var last lock.Fence
		for range ends {
			g := holder.take("job")
			last = g.Hold.Fence
			holder.release(g.Hold)
		}
		var told []session.Unlocked
		total := 0
		for _, e := range watcher.events() {
			u := e.(session.Unlocked)
			told = append(told, u)
			total += 1 + int(u.Merged)
		}
		if n := len(told); total != ends || n < 10 || n >= ends || told[n-1].Fence != last || told[0].Merged > 0 {
			t.Errorf("%d ends were told as %d in %d events: %+v", ends, total, n, told)
		}
	})
}

func TestUnwatchEndsTheLooking(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.watch("job")
		c.Unwatch(c.id(), "job")
		one[session.Done](c)
		c.Unwatch(c.id(), "job")
		one[session.Done](c)
		looks := w.store.looks.Load()
		time.Sleep(time.Minute)
		if more := w.store.looks.Load() - looks; more != 0 {
			t.Errorf("the store was looked at %d times after the last watcher left", more)
		}
	})
}

// cutOff is a Store whose listeners can be cut off.
type cutOff struct {
	lock.Store

	mu    sync.Mutex // guards the fields below
	deaf  bool
	ears  []func(lock.Notice)
	tries int
}

func (d *cutOff) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	return d.Store.Listen(name, kind, d.through(notify))
}

func (d *cutOff) Watch(name string, notify func(lock.Notice)) (stop func()) {
	return d.Store.Watch(name, d.through(notify))
}

func (d *cutOff) through(notify func(lock.Notice)) func(lock.Notice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ears = append(d.ears, notify)
	return func(n lock.Notice) {
		d.mu.Lock()
		deaf := d.deaf
		d.mu.Unlock()
		if !deaf {
			notify(n)
		}
	}
}

func (d *cutOff) set(deaf bool) {
	d.mu.Lock()
	d.deaf = deaf
	ears := slices.Clone(d.ears)
	d.mu.Unlock()
	what := lock.NoticeListening
	if deaf {
		what = lock.NoticeDeaf
	}
	for _, notify := range ears {
		notify(lock.Notice{What: what})
	}
}

func (d *cutOff) Acquire(ctx context.Context, c lock.Claim) (lock.Grant, error) {
	d.mu.Lock()
	d.tries++
	d.mu.Unlock()
	return d.Store.Acquire(ctx, c)
}

func (d *cutOff) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries
}

func TestWaitersAskEverySecondWhileNothingIsHeard(t *testing.T) {
	inWorld(t, func(w *world) {
		store := &cutOff{Store: w.store}
		there := start(w.t, testConfig(), &faults{Store: store})
		holder, waiter := w.alive(), there.alive()
		g := holder.take("job")
		waiter.acquire(request.Acquire{Name: "job"})
		one[session.Queued](waiter)
		time.Sleep(time.Minute)
		heard := store.count()
		time.Sleep(time.Minute)
		if n := store.count() - heard; n > 13 {
			t.Errorf("asked %d times in a minute while releases are heard", n)
		}
		store.set(true)
		time.Sleep(100 * time.Millisecond)
		holder.release(g.Hold)
		time.Sleep(1100 * time.Millisecond)
		one[session.Granted](waiter)
	})
}

func TestWhatEndsWhileNothingIsHeardIsToldOnceWithoutACause(t *testing.T) {
	inWorld(t, func(w *world) {
		store := &cutOff{Store: w.store}
		there := start(w.t, testConfig(), &faults{Store: store})
		watcher, holder := there.alive(), w.alive()
		watcher.watch("job")
		first := holder.take("job").Hold
		time.Sleep(time.Second)
		store.set(true)
		holder.release(first)
		for range 3 { // nobody can know of these
			holder.release(holder.take("job").Hold)
		}
		last := holder.take("job").Hold
		time.Sleep(2 * time.Second)
		watcher.hears(unlocked("job", lock.EndUnknown, first.Fence))
		store.set(false)
		settled()
		watcher.none()
		holder.release(last)
		watcher.hears(unlocked("job", lock.EndReleased, last.Fence))
		settled()
		watcher.none()
	})
}
