package client_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/lockdtest"
	"github.com/lockd-io/lockd/internal/redistest"
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

func TestRealFairOrder(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, addr string) {
		clients := []*client.Client{dial(t, addr), dial(t, addr)}
		l := mustLock(t, clients[0], t.Name(), client.As(client.Fair))
		var queue []<-chan *client.Lock
		for i := range 8 {
			queue = append(queue, waits(t, clients[i%2], t.Name(), client.As(client.Fair)))
		}
		_, err := clients[0].TryLock(t.Context(), t.Name(), client.As(client.Fair))
		wantError(t, err, client.ErrHeld)
		for i, next := range queue {
			unlock(t, l, func() error { return l.Unlock(t.Context()) })
			after := <-next
			if after.Fence() <= l.Fence() {
				t.Errorf("number %d: fence %d after %d", i, after.Fence(), l.Fence())
			}
			l = after
		}
		unlock(t, l, func() error { return l.Unlock(t.Context()) })
	})
}

func TestRealReadersAndWriters(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, addr string) {
		clients := []*client.Client{dial(t, addr), dial(t, addr), dial(t, addr)}
		var wg sync.WaitGroup
		var readers, writers, together atomic.Int32
		for i := range 24 {
			wg.Go(func() {
				c, kind, mine, others := clients[i%3], client.Read, &readers, &writers
				if i%4 == 0 {
					kind, mine, others = client.Write, &writers, &readers
				}
				for range 8 {
					l, err := c.Lock(t.Context(), t.Name(), client.As(kind))
					if err != nil {
						t.Error(err)
						return
					}
					n := mine.Add(1)
					if others.Load() > 0 || kind == client.Write && n > 1 {
						t.Errorf("%d writers and %d readers", writers.Load(), readers.Load())
					}
					if kind == client.Read && n > 1 {
						together.Add(1)
					}
					time.Sleep(time.Millisecond)
					mine.Add(-1)
					unlock(t, l, func() error { return l.Unlock(t.Context()) })
				}
			})
		}
		wg.Wait()
		if together.Load() == 0 {
			t.Error("no two readers were ever there at the same time")
		}
	})
}

func TestRealReadBesideWriteAndNoUpgrade(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, addr string) {
		c, other := dial(t, addr), dial(t, addr)
		write := mustLock(t, c, t.Name(), client.As(client.Write), client.Holder("h"))
		read := mustLock(t, c, t.Name(), client.As(client.Read), client.Holder("h"))
		_, err := other.TryLock(t.Context(), t.Name(), client.As(client.Read))
		wantError(t, err, client.ErrHeld)
		unlock(t, write, func() error { return write.Unlock(t.Context()) })
		shared := mustLock(t, other, t.Name(), client.As(client.Read)) // it was downgraded
		_, err = c.Lock(t.Context(), t.Name(), client.As(client.Write), client.Holder("h"))
		wantError(t, err, client.ErrUpgrade)
		for _, l := range []*client.Lock{read, shared} {
			unlock(t, l, func() error { return l.Unlock(t.Context()) })
		}
		mustLock(t, other, t.Name(), client.As(client.Write))
	})
}

func TestRealSemaphore(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, addr string) {
		clients := []*client.Client{dial(t, addr), dial(t, addr)}
		var wg sync.WaitGroup
		var out, most atomic.Int32
		for i := range 24 {
			wg.Go(func() {
				n := uint32(1 + i%3)
				for range 8 {
					l, err := clients[i%2].Lock(t.Context(), t.Name(), client.Permits(n, 5))
					if err != nil {
						t.Error(err)
						return
					}
					now := out.Add(int32(n))
					if now > 5 {
						t.Errorf("%d permits of 5 are out", now)
					}
					if now == 5 {
						most.Store(5)
					}
					time.Sleep(time.Millisecond)
					out.Add(-int32(n))
					unlock(t, l, func() error { return l.Unlock(t.Context()) })
				}
			})
		}
		wg.Wait()
		if most.Load() != 5 {
			t.Error("the permits were never all out")
		}
		_, err := clients[0].Lock(t.Context(), t.Name(), client.Permits(1, 6))
		if e, ok := errors.AsType[*client.LimitError](err); !ok || e.Limit != 5 {
			t.Errorf("got %v, want the limit", err)
		}
		_, err = clients[0].Lock(t.Context(), t.Name()+"-new", client.As(client.Semaphore))
		wantError(t, err, client.ErrLimitMismatch)
		l := mustLock(t, clients[0], t.Name(), client.Permits(5, 0))
		_, err = clients[1].TryLock(t.Context(), t.Name(), client.As(client.Semaphore))
		wantError(t, err, client.ErrHeld)
		waiting := waits(t, clients[1], t.Name(), client.As(client.Semaphore))
		unlock(t, l, func() error { return l.Unlock(t.Context()) })
		<-waiting
	})
}

// Many lock the same names in all orders: nobody blocks anybody for ever, and nobody has a part.
func TestRealSeveralAtOnce(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, addr string) {
		clients := []*client.Client{dial(t, addr), dial(t, addr), dial(t, addr)}
		var wg sync.WaitGroup
		var inside [4]atomic.Int32
		for i := range 12 {
			wg.Go(func() {
				for round := range 5 {
					var is []client.Item
					for _, n := range []int{i + round, i + 1, i*3 + 2} {
						item := client.Item{Name: fmt.Sprint(t.Name(), n%4)}
						if !slices.Contains(is, item) {
							is = append(is, item)
						}
					}
					ls, err := clients[i%3].LockAll(t.Context(), is)
					if err != nil {
						t.Error(err)
						return
					}
					for _, l := range ls.All() {
						if n := inside[l.Name()[len(l.Name())-1]-'0'].Add(1); n != 1 {
							t.Errorf("%d holders of %s", n, l.Name())
						}
					}
					for _, l := range ls.All() {
						inside[l.Name()[len(l.Name())-1]-'0'].Add(-1)
					}
					unlock(t, ls, func() error { return ls.Unlock(t.Context()) })
				}
			})
		}
		wg.Wait()
	})
}

func TestRealMixedKindsAtOnce(t *testing.T) {
	t.Parallel()
	servers(t, func(t *testing.T, addr string) {
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
	})
}

// Two replicas with one store between them: the order of a fair lock, and all or nothing, are those of the store.
func TestRealReplicas(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var clients []*client.Client
	for range 2 {
		clients = append(clients, dial(t, lockdtest.Start(t, "--redis", redis.Addr).Addr))
	}
	l := mustLock(t, clients[0], "fair", client.As(client.Fair))
	var queue []<-chan *client.Lock
	for i := range 6 {
		queue = append(queue, waits(t, clients[i%2], "fair", client.As(client.Fair)))
	}
	for i, next := range queue {
		unlock(t, l, func() error { return l.Unlock(t.Context()) })
		select {
		case l = <-next:
		case <-time.After(20 * time.Second):
			t.Fatalf("number %d does not get the lock", i)
		}
	}
	unlock(t, l, func() error { return l.Unlock(t.Context()) })
	var wg sync.WaitGroup
	var inside [3]atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			for round := range 5 {
				a, b := (i+round)%3, (i*2+round+1)%3
				if a == b {
					b = (a + 1) % 3
				}
				ls, err := clients[i%2].LockAll(t.Context(), items(fmt.Sprint("all", a), fmt.Sprint("all", b)))
				if err != nil {
					t.Error(err)
					return
				}
				if inside[a].Add(1) != 1 || inside[b].Add(1) != 1 {
					t.Error("two holders")
				}
				inside[a].Add(-1)
				inside[b].Add(-1)
				unlock(t, ls, func() error { return ls.Unlock(t.Context()) })
			}
		})
	}
	wg.Wait()
}
