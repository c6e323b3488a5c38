package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

func TestRealLeasesChange(t *testing.T) {
	t.Parallel()
	c, other := dial(t, addr, client.WithSessionTTL(3*time.Second)), dial(t, addr)
	name := t.Name()
	l := mustLock(t, c, name, client.Lease(time.Minute))
	if err := l.Shorten(t.Context(), 2*time.Second); err != nil {
		t.Fatal(err)
	}
	if d := l.ValidFor(); d > 2*time.Second {
		t.Errorf("valid for %v, want no more than 2 s", d)
	}
	begun := time.Now()
	next := mustLock(t, other, name, client.Wait(30*time.Second))
	if d := time.Since(begun); d > 30*time.Second {
		t.Errorf("the next one had it after %v", d)
	}
	wantError(t, l.Err(), client.ErrLost)
	unlock(t, next, func() error { return next.Unlock(t.Context()) })

	l = mustLock(t, c, name)
	if err := l.MakeFixed(t.Context(), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if d := l.ValidFor(); d < 10*time.Second {
		t.Errorf("valid for %v, want about 20 s", d)
	}
	if err := l.Shorten(t.Context(), 3*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := l.MakeAuto(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	unlock(t, l, func() error { return l.Unlock(t.Context()) })
}

func TestRealPermitsAndLimits(t *testing.T) {
	t.Parallel()
	c, other, name := dial(t, addr), dial(t, addr), t.Name()
	if previous, err := c.SetLimit(t.Context(), name, 3); err != nil || previous != 0 {
		t.Errorf("first limit: %d, %v", previous, err)
	}
	l := mustLock(t, c, name, client.Permits(3, 3))
	next := waits(t, other, name, client.Permits(2, 0))
	for range 2 {
		if left, err := l.KeepPermits(t.Context(), 1); err != nil || left != 1 {
			t.Errorf("keep 1: %d left, %v", left, err)
		}
	}
	if left, err := l.KeepPermits(t.Context(), 2); err != nil || left != 1 {
		t.Errorf("keep 2 of 1: %d left, %v", left, err)
	}
	two := <-next
	next = waits(t, other, name, client.Permits(1, 0))
	if previous, err := c.SetLimit(t.Context(), name, 4); err != nil || previous != 3 {
		t.Errorf("limit before: %d, %v", previous, err)
	}
	one := <-next
	if previous, err := c.SetLimit(t.Context(), name, 1); err != nil || previous != 4 {
		t.Errorf("limit before: %d, %v", previous, err)
	}
	info, err := c.Look(t.Context(), name)
	if err != nil || info.Kind != client.Semaphore || info.Limit != 1 || info.Holders != 4 {
		t.Errorf("got %+v, %v", info, err)
	}
	for _, held := range []*client.Lock{two, one} {
		unlock(t, held, func() error { return held.Unlock(t.Context()) })
	}
	_, err = other.TryLock(t.Context(), name, client.Permits(1, 0))
	wantError(t, err, client.ErrHeld)
	unlock(t, l, func() error { return l.Unlock(t.Context()) })
	mustLock(t, other, name, client.Permits(1, 1))
	_, err = c.SetLimit(t.Context(), name, 0)
	wantError(t, err, client.ErrInvalid)
}

func TestRealLooks(t *testing.T) {
	t.Parallel()
	c, name := dial(t, addr, client.WithName("looker")), t.Name()
	const n = 150 // more than a page
	for i := range n {
		mustLock(t, c, fmt.Sprintf("%s/%03d", name, i), client.Annotation("why"))
	}
	mustLock(t, c, name+"-other", client.Lease(time.Minute))
	for _, err := range c.Holds(t.Context(), name) {
		wantError(t, err)
		break // before the first page ends
	}
	all, err := holds(c, name+"/")
	if err != nil || len(all) != n {
		t.Fatalf("%d holds, %v", len(all), err)
	}
	for i, h := range all {
		if h.Name != fmt.Sprintf("%s/%03d", name, i) || !h.Auto || h.Count != 1 || h.Fence == 0 ||
			!h.Deadline.After(time.Now()) {
			t.Fatalf("hold %d: %+v", i, h)
		}
	}
	info, err := c.Look(t.Context(), name+"/007")
	if err != nil || !info.Held || info.Client != "looker" || info.Annotation != "why" || info.Fence != all[7].Fence {
		t.Errorf("got %+v, %v", info, err)
	}
	if info, err = c.Look(t.Context(), name+"/nobody"); err != nil || info.Held {
		t.Errorf("got %+v, %v", info, err)
	}
	_, err = c.Look(t.Context(), "\xff")
	wantError(t, err, client.ErrInvalid)
}
