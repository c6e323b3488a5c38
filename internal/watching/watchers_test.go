package watching

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// listener is a Watcher that notes what it is told.
type listener struct {
	mu     sync.Mutex // guards the fields below
	told   []lock.Fence
	merged int
	slow   bool
}

func (*listener) Tenant() lock.Tenant { return "" }
func (*listener) Watching(uint64)     {}

func (l *listener) Unlocked(_ string, e End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, e.Fence)
	l.merged += int(e.Merged)
	if l.slow {
		time.Sleep(time.Second)
	}
}

// calmStore is a Store in which nothing happens.
type calmStore struct{}

func (calmStore) Watch(_ string, notify func(lock.Notice)) (stop func()) {
	notify(lock.Notice{What: lock.NoticeListening})
	return func() {}
}

func (calmStore) See(context.Context, string) (lock.Seen, error) { return lock.Seen{}, nil }

// Those who watch are told of each end once, in their order, whoever else comes and goes; those who left are not.
func TestThoseAreToldWhoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(calmStore{})
		defer h.Close()
		all := make([]listener, 100)
		want := make([][]lock.Fence, len(all))
		here := make([]bool, len(all))
		h.Watch("n", &listener{}, 1)
		synctest.Wait()
		for f := range lock.Fence(2000) {
			switch i := int(f) * 7 % len(all); {
			case f%3 != 2 && f/1000%2 == 0 || f%5 == 0:
				h.Watch("n", &all[i], 1)
				here[i] = true
			default:
				h.Unwatch("n", &all[i])
				here[i] = false
			}
			h.Ended("n", End{Cause: lock.EndReleased, Fence: f + 1})
			for i := range all {
				if here[i] {
					want[i] = append(want[i], f+1)
				}
			}
			synctest.Wait()
		}
		for i := range all {
			if !slices.Equal(all[i].told, want[i]) {
				t.Errorf("%d was told of %d ends, want %d", i, len(all[i].told), len(want[i]))
			}
		}
	})
}

// However slow those are who are told, only so much waits to be told of a name: ends are merged, and counted.
func TestEndsAreMergedWhenTheyCannotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(calmStore{})
		all := make([]listener, 64)
		for i := range all {
			h.Watch("n", &all[i], 1)
		}
		time.Sleep(time.Second)
		all[0].slow = true
		for f := range lock.Fence(1000) {
			h.Ended("n", End{Cause: lock.EndReleased, Fence: f + 1})
			h.Watch("n", &all[1], 1)
		}
		h.Close()
		for i := range all {
			n, merged := len(all[i].told), all[i].merged
			if n+merged != 1000 || n > 200 || all[i].told[n-1] != 1000 {
				t.Fatalf("1000 ends were told in %d, and %d merged", n, merged)
			}
		}
	})
}

// Whoever ends a hold waits until all are noted who are to be told, so they are not gone over for each end.
func TestVeryManyWhoWatchCostAnEndNothing(t *testing.T) {
	var a watchers
	for range 10_000 {
		a.add(&listener{})
	}
	a.all()
	if n := testing.AllocsPerRun(100, func() { a.all() }); n > 0 {
		t.Errorf("the list of those who watch is made anew for each end")
	}
	one := &listener{}
	a.add(one)
	if all := a.all(); len(all) != 10_001 || !slices.Contains(all, Watcher(one)) {
		t.Errorf("%d watch, and who has just come is not one of them", len(all))
	}
	a.remove(one)
	if all := a.all(); len(all) != 10_000 || slices.Contains(all, Watcher(one)) {
		t.Errorf("%d watch, and who has left is one of them", len(all))
	}
}

// Of names that have had very many ends little is kept.
func TestEndsAreForgottenWhenNothingRepeatsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := New(calmStore{}), &listener{}
		defer h.Close()
		h.Watch("n", l, 1)
		time.Sleep(time.Second)
		for f := range lock.Fence(maxRecent) {
			h.Ended("n", End{Cause: lock.EndReleased, Fence: f + 1})
		}
		time.Sleep(repeatTime / 2)
		for f := range lock.Fence(maxRecent) {
			h.Ended("n", End{Cause: lock.EndReleased, Fence: f + 1})
		}
		synctest.Wait()
		if n := len(l.told) + l.merged; n != maxRecent {
			t.Errorf("%d ends of %d are told, when each was told again", n, maxRecent)
		}
		time.Sleep(repeatTime)
		h.plant("n", func(w *watch) {
			if n := len(w.told.values) + cap(w.told.order); n > 0 {
				t.Errorf("%d ends are kept", n)
			}
		})
	})
}
