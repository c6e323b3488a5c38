package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

// waits locks in the background and returns when it is in the queue.
func waits(t *testing.T, c *client.Client, name string, opts ...client.LockOption) <-chan *client.Lock {
	t.Helper()
	queued, got := make(chan int, 100), make(chan *client.Lock, 1)
	opts = append(opts, client.OnQueued(func(position int) { queued <- position }))
	go func() {
		l, err := c.Lock(t.Context(), name, opts...)
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	select {
	case <-queued:
	case <-got:
		t.Fatal("granted without having waited")
	}
	return got
}

func unlock(t testing.TB, l interface{ Err() error }, give func() error) {
	t.Helper()
	if err := l.Err(); err != nil {
		t.Error(err)
	}
	if err := give(); err != nil {
		t.Error(err)
	}
}

func TestRealMixedKindsAtOnce(t *testing.T) {
	t.Parallel()
	c, other := dial(t, addr), dial(t, addr)
	name := func(s string) string { return t.Name() + s }
	ls := mustLockAll(t, c, []client.Item{
		{Name: name("r"), Kind: client.Read},
		{Name: name("e")},
		{Name: name("s"), Permits: 2, Limit: 3},
		{Name: name("f"), Kind: client.Fair},
	})
	for i, l := range ls.All() {
		if l.Fence() == 0 || l.ValidFor() == 0 || l.Name() != name(string("resf"[i])) {
			t.Errorf("got %s with fence %d, valid for %v", l.Name(), l.Fence(), l.ValidFor())
		}
	}
	mustLock(t, other, name("r"), client.As(client.Read))
	_, err := other.TryLockAll(t.Context(), []client.Item{{Name: name("free")}, {Name: name("s"), Permits: 2}})
	wantError(t, err, client.ErrHeld)
	if held, ok := errors.AsType[*client.HeldError](err); !ok || held.Name != name("s") {
		t.Errorf("got %v, want the semaphore in the way", err)
	}
	mustLock(t, other, name("free"))
	got := make(chan *client.Locks, 1)
	go func() {
		got <- mustLockAll(t, other, []client.Item{{Name: name("f"), Kind: client.Fair}, {Name: name("e")}})
	}()
	if err := ls.All()[1].Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-got:
		t.Error("got both, of which one is held")
	case <-time.After(50 * time.Millisecond):
	}
	if err := ls.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	next := <-got
	unlock(t, next, func() error { return next.Unlock(t.Context()) })
}
