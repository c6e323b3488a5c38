package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/memstore"
)

func (c *client) watch(name string) {
	c.t.Helper()
	c.Watch(c.id(), name)
	one[broker.Done](c)
}

func TestWatchersHearOfAReleaseOnAnyReplica(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.open(), w.replica().open()
		watcher.watch("job")
		g := holder.take("job")
		watcher.none()
		holder.release(g.Hold)
		if u := one[broker.Unlocked](watcher); u.Name != "job" {
			t.Errorf("got %q", u.Name)
		}
	})
}

func TestWatchersHearOfAnExpiry(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.replica().alive()
		holder.acquire(broker.AcquireRequest{Name: "job", Lease: new(3 * time.Second)})
		one[broker.Granted](holder)
		watcher.watch("job")
		time.Sleep(3*time.Second + 5*time.Millisecond)
		one[broker.Unlocked](watcher)
	})
}

func TestWatchersHearOfALockTakenAndExpiredUnseen(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.replica().alive()
		g := holder.take("job")
		holder.release(g.Hold)
		watcher.watch("job")
		time.Sleep(time.Second)
		watcher.none()
		holder.acquire(broker.AcquireRequest{Name: "job", Lease: new(time.Second)})
		one[broker.Granted](holder)
		time.Sleep(5 * time.Second)
		one[broker.Unlocked](watcher)
	})
}

func TestWatchersHearOfADeletedKey(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.replica().alive()
		watcher.watch("job")
		holder.take("job")
		time.Sleep(6 * time.Second)
		w.store.Store.(*memstore.Store).Expire("job")
		time.Sleep(11 * time.Second)
		one[broker.Unlocked](watcher)
	})
}

// What is unlocked before the first look, and before the store is listened to, cannot be noticed.
func TestAWatchIsPromisedOnlyWhenTheNameWasLookedAt(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.open(), w.replica().open()
		g := holder.take("job")
		w.store.onLook(func() { time.Sleep(time.Second) })
		watcher.Watch(watcher.id(), "job")
		watcher.Watch(watcher.id(), "job")
		watcher.none()
		time.Sleep(time.Second)
		if events := watcher.events(); len(events) != 2 {
			t.Fatalf("got %#v, want both answers", events)
		}
		holder.release(g.Hold)
		one[broker.Unlocked](watcher)
	})
}

func TestAWatchThatEndsBeforeTheFirstLookIsAnswered(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher := w.open()
		w.store.onLook(func() { time.Sleep(time.Second) })
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
		w.store.setDown(broker.ErrUnavailable)
		watcher.watch("job")
		w.store.setDown(nil)
		time.Sleep(time.Second)
		one[broker.Unlocked](watcher)
	})
}

func TestUnlocksAreMergedPerName(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.open(), w.open()
		watcher.watch("job")
		for range 5 {
			holder.release(holder.take("job").Hold)
		}
		one[broker.Unlocked](watcher)
	})
}

func TestUnwatchEndsTheLooking(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.watch("job")
		c.Unwatch(c.id(), "job")
		one[broker.Done](c)
		c.Unwatch(c.id(), "job")
		one[broker.Done](c)
		looks := w.store.looks.Load()
		time.Sleep(time.Minute)
		if more := w.store.looks.Load() - looks; more != 0 {
			t.Errorf("the store was looked at %d times after the last watcher left", more)
		}
	})
}

func TestWatchersHearOfTheFirstLockOfANameTakenAndExpiredUnseen(t *testing.T) {
	inWorld(t, func(w *world) {
		watcher, holder := w.alive(), w.replica().alive()
		watcher.watch("job")
		time.Sleep(time.Second)
		holder.acquire(broker.AcquireRequest{Name: "job", Lease: new(time.Second)})
		one[broker.Granted](holder)
		time.Sleep(time.Minute)
		one[broker.Unlocked](watcher)
	})
}
