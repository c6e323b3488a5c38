package memstore_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

// of is a claim of another kind.
func of(kind lock.Kind, name string, o lock.Owner, ttl time.Duration) lock.Claim {
	c := claim(name, o, ttl)
	c.Kind = kind
	return c
}

// refused makes a claim that must be refused, and returns why.
func refused(t *testing.T, s *memstore.Store, c lock.Claim) *lock.HeldError {
	t.Helper()
	_, err := lock.Await(t.Context(), s.StartAcquire, c)
	held, ok := errors.AsType[*lock.HeldError](err)
	if !ok {
		t.Fatalf("got %v, want it held", err)
	}
	return held
}

func granted(t *testing.T, s *memstore.Store, c lock.Claim) lock.Fence {
	t.Helper()
	g, err := lock.Await(t.Context(), s.StartAcquire, c)
	if err != nil {
		t.Error(err)
	}
	return g.Fence
}

func released(t *testing.T, s *memstore.Store, r lock.Return) {
	t.Helper()
	if _, err := lock.Await(t.Context(), s.StartRelease, r); err != nil {
		t.Error(err)
	}
}

func TestAPlaceEndsToTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		granted(t, s, of(lock.Fair, "n", "o", time.Second))
		for i, o := range []lock.Owner{"first", "second"} {
			c := of(lock.Fair, "n", o, time.Hour)
			c.Place = time.Duration(i+1) * time.Minute
			if held := refused(t, s, c); held.Ahead != i || held.RetryAfter != time.Second {
				t.Errorf("got %+v, want %d ahead and a second", held, i)
			}
		}
		time.Sleep(time.Minute - time.Nanosecond)
		second := of(lock.Fair, "n", "second", time.Hour)
		if held := refused(t, s, second); held.HeldBy != "first" || held.RetryAfter != time.Nanosecond {
			t.Errorf("got %+v, want the first to have its place for a nanosecond", held)
		}
		time.Sleep(time.Nanosecond)
		granted(t, s, second)
	})
}

func TestPermitsEndToTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		c := of(lock.Semaphore, "n", "o", time.Second)
		c.Permits, c.Limit = 2, 3
		granted(t, s, c)
		c.Owner, c.Limit, c.TTL = "other", 0, time.Hour
		if held := refused(t, s, c); held.RetryAfter != time.Second {
			t.Errorf("got %+v, want a second", held)
		}
		time.Sleep(time.Second)
		granted(t, s, c)
		want := lock.State{Name: "n", Kind: lock.Semaphore, Held: true, Holders: 2, TTL: time.Hour, Limit: 3}
		got, err := s.Look(t.Context(), "n")
		if got.Fence = 0; err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

// Whatever was under a name and whoever waited, in the end nothing is remembered.
func TestDeadEntriesOfAllKindsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		const names = 1000
		for i := range names {
			for _, kind := range lock.Kinds() {
				c := of(kind, fmt.Sprint(kind, i), "o", time.Second)
				if kind == lock.Semaphore {
					c.Permits, c.Limit = 1, 1
				}
				granted(t, s, c)
				if kind.Placed() {
					c.Owner, c.Place = "waiter", time.Hour
					_ = refused(t, s, c)
				}
			}
		}
		time.Sleep(8 * 24 * time.Hour)
		if n := s.Size(); n != 5*names {
			t.Errorf("got %d names, want %d", n, 5*names)
		}
		for i := range 5 * names / 2 {
			granted(t, s, claim(fmt.Sprint("held", i), "o", time.Hour))
		}
		if n := s.Size(); n > 5*names/2+1 {
			t.Errorf("got %d names, want only the %d that are held", n, 5*names/2)
		}
		for i := range 5 * names / 2 {
			if st, err := s.Look(t.Context(), fmt.Sprint("held", i)); err != nil || !st.Held {
				t.Fatalf("got %+v, %v, want it held", st, err)
			}
		}
	})
}
