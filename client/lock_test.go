package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

func TestContextEndsWithUnlock(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		type key struct{}
		c := f.dial(t)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		l, err := c.Lock(ctx, "n")
		ls, errs := c.LockAll(ctx, items("a", "b"))
		harness.Must(t, errors.Join(err, errs))
		cancel()
		for _, h := range []held{l, ls} {
			ctx := h.Context()
			child, stop := context.WithCancel(ctx)
			defer stop()
			if ctx.Err() != nil || ctx.Value(key{}) != "value" {
				t.Errorf("err %v, value %v; want the value and not the end of the context given to Lock", ctx.Err(),
					ctx.Value(key{}))
			}
			harness.Must(t, h.Unlock(t.Context()))
			<-ctx.Done()
			<-child.Done()
			wantError(t, ctx.Err(), context.Canceled)
			wantError(t, context.Cause(ctx), client.ErrUnlocked)
			wantError(t, context.Cause(child), client.ErrUnlocked)
			select {
			case <-h.Lost():
				t.Error("Lost is closed after Unlock")
			default:
			}
		}
	})
}

// The timer and everybody who asks find out in the same moment.
func TestLossIsFoundByManyAtOnce(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		for i := range 200 {
			l := mustLock(t, c, fmt.Sprint(i), client.Lease(time.Second))
			for range 3 {
				time.AfterFunc(l.ValidFor(), func() {
					<-l.Lost()
					<-l.Context().Done()
				})
			}
		}
		time.Sleep(2 * time.Second)
	})
}

// A grant comes in the moment in which the wait for it ends: it is told, or nothing is left of it.
func TestAGrantAtTheEndOfItsWait(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() != nil {
				time.AfterFunc(time.Second, func() { s.serve(r) })
			}
			return r.GetAcquire() != nil
		})
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ls, err := c.LockAll(ctx, items("a", "b"))
			cancel()
			if err == nil {
				err = ls.Unlock(t.Context())
			} else {
				wantError(t, err, client.ErrCancelled, context.DeadlineExceeded)
				err = nil
			}
			time.Sleep(time.Second)
			if names := f.names(); err != nil || len(names) > 0 {
				t.Errorf("%v, still held: %q", err, names)
			}
		}
	})
}

// A waiter is busy with the news of its queue while it is granted, and cancelled: it takes the grant, or nothing is
// left of it.
func TestAGrantThatItsCallerDidNotTakeIsReleased(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		holder, waiter, cancelled := f.dial(t), f.dial(t), 0
		for range 32 {
			held := mustLock(t, holder, "n")
			ctx, cancel := context.WithCancel(t.Context())
			l, err := waiter.Lock(ctx, "n", client.OnQueued(func(int) {
				harness.Must(t, held.Unlock(t.Context()))
				synctest.Wait() // it is granted
				cancel()
			}))
			if err == nil {
				harness.Must(t, l.Unlock(t.Context()))
			} else {
				wantError(t, err, client.ErrCancelled, context.Canceled)
				cancelled++
			}
			synctest.Wait()
			if names := f.names(); len(names) > 0 {
				t.Fatalf("still held: %q", names)
			}
		}
		if cancelled == 0 {
			t.Error("all took the grant")
		}
	})
}

func TestWhatIsAskedFor(t *testing.T) {
	const (
		fair      = lockdv1.LockKind_LOCK_KIND_FAIR
		read      = lockdv1.LockKind_LOCK_KIND_READ
		write     = lockdv1.LockKind_LOCK_KIND_WRITE
		exclusive = lockdv1.LockKind_LOCK_KIND_EXCLUSIVE
		semaphore = lockdv1.LockKind_LOCK_KIND_SEMAPHORE
	)
	type opts = []client.LockOption
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		var got *lockdv1.Acquire
		f.setHook(func(_ *fakeStream, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() != nil {
				got = r.GetAcquire()
			}
			return false
		})
		for _, row := range []struct {
			items []client.Item
			opts  opts
			want  *lockdv1.Acquire
		}{
			{nil, opts{client.As(client.Fair)}, &lockdv1.Acquire{Name: "n", Kind: fair}},
			{nil, opts{client.Permits(3, 7)}, &lockdv1.Acquire{Name: "n", Kind: semaphore, Permits: 3, Limit: 7}},
			{nil, opts{client.Actor("x")}, &lockdv1.Acquire{Name: "n", Kind: exclusive, Actor: "x"}},
			{ // as a server asked for one lock wants it
				[]client.Item{{Name: "n", Kind: client.Semaphore, Permits: 2}},
				nil,
				&lockdv1.Acquire{Name: "n", Kind: semaphore, Permits: 2},
			},
			{items("n"), opts{client.As(client.Read)}, &lockdv1.Acquire{Name: "n", Kind: read}},
			{
				[]client.Item{{Name: "a"}, {Name: "b", Permits: 2}, {Name: "c", Limit: 9}, {Name: "d", Kind: client.Write}},
				opts{client.Holder("h"), client.Annotation("x"), client.Wait(time.Second), client.Lease(time.Minute)},
				&lockdv1.Acquire{
					Items: []*lockdv1.AcquireItem{
						{Name: "a", Kind: exclusive},
						{Name: "b", Kind: semaphore, Permits: 2},
						{Name: "c", Kind: semaphore, Limit: 9},
						{Name: "d", Kind: write},
					},
					Holder: "h", Annotation: "x", Wait: durationpb.New(time.Second), Lease: durationpb.New(time.Minute),
				},
			},
			{items("a", "b:fair"), opts{client.Permits(2, 4)}, &lockdv1.Acquire{Items: []*lockdv1.AcquireItem{
				{Name: "a", Kind: semaphore, Permits: 2, Limit: 4}, {Name: "b", Kind: fair},
			}}},
		} {
			var h held
			if row.items == nil {
				h = mustLock(t, c, "n", row.opts...)
			} else {
				h = mustLockAll(t, c, row.items, row.opts...)
			}
			if err := h.Unlock(t.Context()); err != nil || !proto.Equal(got, row.want) {
				t.Errorf("got %v, %v, want %v", got, err, row.want)
			}
		}
	})
}

// The server is told what the options say, and is told it again when the session goes on.
func TestOptionsReachTheServer(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		actor := client.NewActor()
		if again := client.NewActor(); len(actor) < 20 || again == actor {
			t.Errorf("actors are %q and %q", actor, again)
		}
		c := f.dial(t, client.WithName("billing"), client.WithLabels(map[string]string{"zone": "a"}),
			client.WithSessionTTL(12*time.Second), client.WithActor(actor), client.WithFailOnDeadlock())
		mustLock(t, c, "n")
		want := &lockdv1.Open{
			ClientName: "billing", Labels: map[string]string{"zone": "a"}, SessionTtl: durationpb.New(12 * time.Second),
			Actor: actor, Deadlock: lockdv1.DeadlockPolicy_DEADLOCK_POLICY_FAIL,
			Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH, lockdv1.Feature_FEATURE_RESUME},
		}
		f.stream(0).stop <- errCut
		time.Sleep(time.Second)
		again := proto.CloneOf(f.stream(1).open)
		again.Resume = nil
		for _, got := range []*lockdv1.Open{f.stream(0).open, again} {
			if !proto.Equal(got, want) {
				t.Errorf("the server was told %v, want %v", got, want)
			}
		}
	})
}

// TestTextsThatNoMessageCanHave are refused before anything is connected: the server is away.
func TestTextsThatNoMessageCanHave(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.down[addrA] = true
		c := f.dialAt(t, addrA)
		const bad = "n\xff"
		_, lock := c.Lock(t.Context(), bad)
		_, try := c.TryLock(t.Context(), "n", client.Holder(bad))
		_, note := c.Lock(t.Context(), "n", client.Annotation(bad))
		_, all := c.LockAll(t.Context(), items("n", bad))
		_, none := c.LockAll(t.Context(), nil)
		_, look := c.Look(t.Context(), bad)
		_, limit := c.SetLimit(t.Context(), bad, 1)
		_, watch := c.Watch(t.Context(), bad)
		_, holds := holds(c, bad)
		_, named := client.Dial(addrA, client.WithName(bad))
		_, labels := client.Dial(addrA, client.WithLabels(map[string]string{"a": bad}))
		_, actor := client.Dial(addrA, client.WithActor(bad))
		for reason, errs := range map[string][]error{
			"INVALID_NAME":   {lock, all, none, look, limit, watch, holds},
			"INVALID_HOLDER": {try}, "INVALID_ANNOTATION": {note},
			"INVALID_CLIENT": {named, labels}, "INVALID_ACTOR": {actor},
		} {
			for i, err := range errs {
				if got := client.Reason(err); got != reason || !errors.Is(err, client.ErrInvalid) {
					t.Errorf("%d: got %v (%s), want %s", i, err, got, reason)
				}
			}
		}
	})
}

func TestManyCallersShareFrames(t *testing.T) {
	f := startFake(t, 30*time.Second)
	c := f.dial(t)
	mustLock(t, c, "warm")
	var wg sync.WaitGroup
	fences := make([]uint64, 500)
	for i := range fences {
		wg.Go(func() {
			l := mustLock(t, c, fmt.Sprint(i))
			fences[i] = l.Fence()
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.Sort(fences)
	if n := len(slices.Compact(fences)); n != 500 {
		t.Errorf("%d different fences, want 500", n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frames >= f.requests {
		t.Errorf("%d requests in %d frames", f.requests, f.frames)
	}
}

// A reader that is slow is told several events as one.
func TestASlowWatcherIsToldOfAll(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		events, err := f.dial(t).Watch(t.Context(), "n")
		harness.Must(t, err)
		for range 100 {
			f.stream(0).send(0, &lockdv1.Unlocked{Name: "n"})
		}
		synctest.Wait()
		told, merged := len(events), 0
		for range told {
			merged += int((<-events).Merged)
		}
		if told+merged != 100 || told < 10 || told == 100 {
			t.Errorf("100 unlocks were told in %d events, with %d merged", told, merged)
		}
	})
}

// TestAnnotationsDoNotKeepASessionFromGoingOn has more of them than a frame may have.
func TestAnnotationsDoNotKeepASessionFromGoingOn(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		for i := range 400 {
			mustLock(t, c, fmt.Sprint("n", i), client.Annotation(strings.Repeat("x", 4096)))
		}
		f.stream(0).stop <- errCut
		time.Sleep(time.Second)
		holds, size := f.stream(1).open.GetResume().GetHolds(), 0
		for _, h := range holds {
			size += len(h.GetAnnotation())
		}
		if len(holds) != 400 || size > 1<<20 || size < 1<<19 {
			t.Errorf("%d holds with annotations of %d bytes, want all, and no more than a frame has", len(holds), size)
		}
	})
}

// Clients that leave a replica together spread over the others.
func TestThoseWhoLeaveAReplicaSpread(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		first := map[string]int{}
		for i := range 40 {
			mustLock(t, f.dialAt(t, both+",10.0.0.3:7420"), fmt.Sprint("n", i))
			before := len(f.dialled)
			f.stream(-1).send(0, &lockdv1.Draining{ReconnectWithin: durationpb.New(time.Minute)})
			synctest.Wait()
			first[f.dialled[before]]++
		}
		if len(first) != 2 || first[addrA] > 0 {
			t.Errorf("they went to %v", first)
		}
	})
}

// lateEnd is a context that ends while an answer comes, so that nobody was told of it yet.
type lateEnd struct {
	context.Context
	over *atomic.Bool
}

func (lateEnd) Done() <-chan struct{} { return nil }

func (c lateEnd) Err() error {
	if c.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// TestATryThatWasAnsweredSaysSo has a context end in the moment in which the answer comes.
func TestATryThatWasAnsweredSaysSo(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "n")
		var over atomic.Bool
		f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
			over.Store(over.Load() || r.GetAcquire() != nil)
			return false
		})
		_, err := c.TryLock(lateEnd{t.Context(), &over}, "n")
		wantError(t, err, client.ErrHeld)
		if errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, client.ErrCancelled) {
			t.Errorf("got %v, want only that it is held", err)
		}
	})
}

// What other clients call themselves is shown without what a terminal would take for an order.
func TestTheTextOfADeadlockIsPrintable(t *testing.T) {
	err := &client.DeadlockError{Members: []client.DeadlockMember{
		{Client: "a\x1b[2J\nerror: all is lost", Name: "first"}, {Client: "worker 7", Name: strings.Repeat("n", 500)},
	}}
	text := err.Error()
	if strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("got %q", text)
	}
	if !strings.Contains(text, `; worker 7 waits for "nnn`) || len(text) > 400 {
		t.Errorf("got %q, want the ordinary name as it is and the long one cut", text)
	}
}
