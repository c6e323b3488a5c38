package broker_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A store that does not answer delays neither the caller nor other requests, and what waits for it is bounded.
func TestLooksThatWaitForTheStoreAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		slow := make(chan struct{})
		looking := make(chan struct{}, 1000)
		w.store.on("Look", func(next func() error) error { looking <- struct{}{}; <-slow; return next() })
		for i := range 300 { // looks at one name would share a call
			c.Look(c.id(), fmt.Sprint("door ", i))
		}
		c.acquire(request.Acquire{Name: "else"})
		events := c.events()
		denied := 0
		for _, e := range events {
			if f, ok := e.(session.Failed); ok && isError(f.Err, session.ErrQuota) {
				denied++
			}
		}
		if denied < 300-256-4 || denied > 300-256 || len(looking) != 4 {
			t.Errorf("%d looks are refused and %d are under way, want 40 to 44 and 4", denied, len(looking))
		}
		if _, granted := events[len(events)-1].(session.Granted); !granted {
			t.Errorf("got %#v last, want a grant beside the looks", events[len(events)-1])
		}
		close(slow)
		if n := len(c.events()); n != 300-denied {
			t.Errorf("got %d answers, want %d", n, 300-denied)
		}
		c.Goodbye()
		synctest.Wait()
		select {
		case <-c.Done():
		default:
			t.Error("the session has not ended")
		}
	})
}

func TestASessionThatEndsForgetsItsQuestions(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		slow := make(chan struct{})
		w.store.on("Look", func(next func() error) error { <-slow; return next() })
		for i := range 100 { // looks at one name would share a call
			c.Look(c.id(), fmt.Sprint("door ", i))
		}
		synctest.Wait()
		c.End(session.ErrBacklog)
		close(slow)
		synctest.Wait()
		if n := w.store.looks.Load(); n != 4 {
			t.Errorf("%d looks were made, want the 4 that were under way", n)
		}
		select {
		case <-c.Done():
		default:
			t.Error("the session has not ended")
		}
	})
}

// What is held all the while is listed exactly once, in order, whatever comes and goes meanwhile.
func TestAListOfManyHoldsMissesNone(t *testing.T) {
	inWorld(t, func(w *world) {
		c, holds := w.alive(), make([]session.Hold, 3000)
		for i := range holds {
			holds[i] = c.take(fmt.Sprintf("n%04d", i)).Hold
		}
		var names []string
		for i, after := 0, ""; i == 0 || after != ""; i++ {
			c.ListHolds(c.id(), session.Page{Prefix: "n", After: after, Size: 100})
			for _, at := range []int{3 * i, 2997 - 3*i} {
				c.Release(c.id(), holds[at])
				c.acquire(request.Acquire{Name: fmt.Sprintf("n%04d new", at)})
			}
			for _, e := range c.events() {
				if list, ok := e.(session.HoldList); ok {
					after = list.Next
					for _, l := range list.Locks {
						names = append(names, l.Hold.Name)
					}
				}
			}
		}
		if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Error("the list is not in order, or something comes twice")
		}
		for i, h := range holds {
			if i%3 != 0 && !slices.Contains(names, h.Name) {
				t.Fatalf("%s is missing", h.Name)
			}
		}
	})
}

func TestPagesThatAreNotReadAreBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.take("door")
		for range 20 {
			c.ListHolds(c.id(), session.Page{Size: 10})
			synctest.Wait()
		}
		pages, denied := 0, 0
		for _, e := range c.events() {
			switch e := e.(type) {
			case session.HoldList:
				pages++
			case session.Failed:
				if isError(e.Err, session.ErrQuota) {
					denied++
				}
			}
		}
		if pages != 16 || denied != 4 {
			t.Errorf("got %d pages and %d refusals, want 16 and 4", pages, denied)
		}
		c.ListHolds(c.id(), session.Page{Size: 10})
		one[session.HoldList](c)
	})
}

func TestASecondTryThatIsNotMadeSaysNothingOfTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		asked := 0
		w.store.on("SetLimit", func(func() error) error {
			if asked++; asked == 1 { // it may have been done
				return errUnknown
			}
			return lock.ErrUnavailable
		})
		_, err := w.b.SetLimit(request.SetLimit{Name: "pool", Limit: 1})
		if !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %v, want that nobody knows", err)
		}
	})
}
