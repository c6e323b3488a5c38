package client_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func TestRealForcedLossAndWatch(t *testing.T) {
	t.Parallel()
	c := dial(t, addr)
	events, err := c.Watch(t.Context(), "n")
	harness.Must(t, err)
	l := mustLock(t, c, "n")
	conn, err := grpc.NewClient(adminAddr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	harness.Must(t, err)
	defer conn.Close()
	_, err = lockdv1.NewAdminServiceClient(conn).ForceRelease(t.Context(), &lockdv1.ForceReleaseRequest{
		Name: "n", By: "alice@laptop", Why: "stuck\x1b[2J since noon",
	})
	harness.Must(t, err)
	<-l.Lost()
	if lost, ok := errors.AsType[*client.LostError](l.Err()); !ok || lost.Reason != client.LostForced || lost.Name != "n" {
		t.Errorf("got %v, want it lost by force", l.Err())
	}
	wantError(t, context.Cause(l.Context()), client.ErrLost)
	want := `the lock was lost: "n": forced by "alice@laptop": "stuck\x1b[2J since noon"`
	if got := l.Err().Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if e := <-events; e.Name != "n" {
		t.Errorf("got %+v", e)
	}
}

func TestRealDrain(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	states := make(chan client.State, 100)
	c := dial(t, s.Addr, client.WithConnectWait(4*time.Second),
		client.WithOnStatus(func(st client.Status) { states <- st.State }))
	l := mustLock(t, c, "n")
	s.Signal(syscall.SIGTERM)
	for <-states != client.Draining {
	}
	if err := l.Err(); err != nil {
		t.Errorf("while the server drains: %v", err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	harness.Soon(t, "it ends, as the session is idle", s.Exited)
	_, err := c.Lock(t.Context(), "n")
	wantError(t, err, client.ErrUnavailable)
}

// A server that is stopped in the middle, and goes on: calls do not wait for it, and nothing is left behind.
func TestRealStoppedServer(t *testing.T) {
	t.Parallel()
	s := harness.StartLockdWith(t)
	opts := []client.Option{client.WithSessionTTL(time.Minute), client.WithAnswerTimeout(300 * time.Millisecond)}
	c, closed, ctx := dial(t, s.Addr, opts...), dial(t, s.Addr, opts...), t.Context()
	l := mustLock(t, c, "held")
	mustLock(t, closed, "closed")
	s.Signal(syscall.SIGSTOP)
	_, tried := c.TryLock(ctx, "tried")
	_, waited := c.Lock(ctx, "waited", client.Wait(100*time.Millisecond))
	for _, err := range []error{tried, waited, l.Unlock(ctx), closed.Close()} {
		wantError(t, err, client.ErrOutcomeUnknown)
	}
	s.Signal(syscall.SIGCONT)
	other := dial(t, s.Addr)
	for _, name := range []string{"held", "tried", "waited", "closed"} {
		mustLock(t, other, name, client.Wait(30*time.Second))
	}
	harness.Until(t, "Unlock is answered", func() bool {
		err := l.Unlock(ctx)
		if err != nil && !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Fatalf("Unlock after the server went on: %v", err)
		}
		return err == nil
	})
}

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

func TestRealLeasesChange(t *testing.T) {
	t.Parallel()
	const ttl, short = 7 * time.Second, 6 * time.Second
	c, other := dial(t, addr, client.WithSessionTTL(ttl)), dial(t, addr)
	name := t.Name()
	l := mustLock(t, c, name, client.Lease(time.Minute))
	harness.Must(t, l.Extend(t.Context(), 2*time.Second))
	if all, err := holds(c, name); err != nil || time.Until(all[0].Deadline) < 30*time.Second {
		t.Errorf("an extension left %+v of a minute, %v", all, err)
	}
	harness.Must(t, l.Shorten(t.Context(), 4*time.Second))
	if d := l.ValidFor(); d > 4*time.Second {
		t.Errorf("valid for %v, want no more than 4 s", d)
	}
	begun := time.Now()
	next := mustLock(t, other, name, client.Wait(30*time.Second))
	if d := time.Since(begun); d > 30*time.Second {
		t.Errorf("the next one had it after %v", d)
	}
	wantError(t, l.Err(), client.ErrLost)
	unlock(t, next, func() error { return next.Unlock(t.Context()) })

	l = mustLock(t, c, name)
	harness.Must(t, l.MakeFixed(t.Context(), 20*time.Second))
	if d := l.ValidFor(); d < 10*time.Second {
		t.Errorf("valid for %v, want about 20 s", d)
	}
	harness.Must(t, l.Shorten(t.Context(), short))
	if d := l.ValidFor(); d > short {
		t.Errorf("valid for %v, want no more than 6 s", d)
	}
	harness.Must(t, l.MakeAuto(t.Context()))
	begun = time.Now()
	harness.Until(t, "it is renewed", func() bool { return l.Deadline().Sub(begun) > ttl || l.Err() != nil })
	unlock(t, l, func() error { return l.Unlock(t.Context()) })
}

func TestRealPermitsAndLimits(t *testing.T) {
	t.Parallel()
	c, other, name := dial(t, addr), dial(t, addr), fmt.Sprint(t.Name(), time.Now().UnixNano()) // a limit lives on
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
	mustLock(t, c, name+"-fixed", client.Lease(time.Minute))
	mustLock(t, c, name+"-permits", client.Permits(2, 3))
	for _, err := range c.Holds(t.Context(), name) {
		harness.Must(t, err)
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
	others, err := holds(c, name+"-")
	if err != nil || len(others) != 2 || others[0].Auto || others[1].Kind != client.Semaphore || others[1].Permits != 2 {
		t.Errorf("got %+v, %v", others, err)
	}
	if left := time.Until(others[0].Deadline); left < 30*time.Second || left > time.Minute {
		t.Errorf("the fixed lease is valid for %v, want about a minute", left)
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
