package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// bubble runs a test against a fake server with a clock of its own.
func bubble(t *testing.T, ttl time.Duration, test func(t *testing.T, f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, startFake(t, ttl)) })
}

func mustLock(t testing.TB, c *client.Client, name string, opts ...client.LockOption) *client.Lock {
	t.Helper()
	l, err := c.Lock(t.Context(), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantError(t testing.TB, got error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(got, w) {
			t.Errorf("got error %v, want it to be %q", got, w)
		}
	}
}

func TestLockIsHeldUntilUnlock(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		first := mustLock(t, c, "n")
		if _, err := c.TryLock(t.Context(), "n"); true {
			held, ok := errors.AsType[*client.HeldError](err)
			if !ok || held.HeldBy == "" || held.RetryAfter == 0 {
				t.Errorf("got %#v, want a HeldError with all it can tell", err)
			}
		}
		time.Sleep(time.Hour)
		if err := first.Err(); err != nil {
			t.Errorf("after an hour: %v", err)
		}
		if v := first.ValidFor(); v < 20*time.Second || v > 30*time.Second {
			t.Errorf("valid for %v, want what the last heartbeat told", v)
		}
		if err := first.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		wantError(t, first.Unlock(t.Context()), client.ErrNotHeld)
		second := mustLock(t, c, "n")
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
	})
}

func TestContextEndsWithUnlock(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		type key struct{}
		c := f.dial(t)
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		l, err := c.Lock(ctx, "n")
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		held := l.Context()
		child, stop := context.WithCancel(held)
		defer stop()
		if held.Err() != nil || held.Value(key{}) != "value" {
			t.Errorf("err %v, value %v; want the value and not the end of the context given to Lock", held.Err(),
				held.Value(key{}))
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-held.Done()
		<-child.Done()
		wantError(t, context.Cause(held), client.ErrUnlocked)
		wantError(t, context.Cause(child), client.ErrUnlocked)
		select {
		case <-l.Lost():
			t.Error("Lost is closed after Unlock")
		default:
		}
	})
}

func TestWaiterGetsTheLockOnUnlock(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		a, b := f.dial(t), f.dial(t)
		l := mustLock(t, a, "n")
		got := make(chan *client.Lock, 1)
		go func() { got <- mustLock(t, b, "n", client.Wait(time.Minute)) }()
		synctest.Wait()
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next := <-got; next.Fence() != l.Fence()+1 {
			t.Errorf("fence %d after %d", next.Fence(), l.Fence())
		}
	})
}

func TestWaitEnds(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "n")
		start := time.Now()
		_, err := c.Lock(t.Context(), "n", client.Wait(time.Minute))
		wantError(t, err, client.ErrTimedOut)
		if d := time.Since(start); d != time.Minute {
			t.Errorf("waited %v", d)
		}
		_, err = c.Lock(t.Context(), "n", client.Wait(0))
		wantError(t, err, client.ErrHeld)
	})
}

func TestWaitEndsWithoutTheServer(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool { return r.GetAcquire() != nil })
		c := f.dial(t)
		start := time.Now()
		_, err := c.Lock(t.Context(), "n", client.Wait(time.Minute))
		wantError(t, err, client.ErrTimedOut, client.ErrOutcomeUnknown)
		if d := time.Since(start); d != time.Minute+client.DefaultAnswerTimeout {
			t.Errorf("waited %v", d)
		}
	})
}

func TestCancelledWaitIsTakenBack(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		cause := errors.New("no longer wanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		_, err := c.Lock(ctx, "n")
		wantError(t, err, client.ErrCancelled, context.Canceled, cause)
		synctest.Wait()
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if h := f.holder("n"); h != "" {
			t.Errorf("the name went to %q, want nobody", h)
		}
	})
}

func TestGrantThatCrossesACancelIsGivenBack(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetCancel() == nil {
				return false
			}
			// The lock is freed before the Cancel is looked at.
			f.session(0).release(99, &lockdv1.Release{Name: "n", Holder: f.holder("n")})
			return false
		})
		a := f.dial(t)
		mustLock(t, a, "n")
		b := f.dial(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Lock(ctx, "n")
		wantError(t, err, client.ErrCancelled, context.DeadlineExceeded)
		synctest.Wait()
		if h := f.holder("n"); h != "" {
			t.Errorf("%q holds the name, want nobody", h)
		}
	})
}

func TestReentrantHolder(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		outer := mustLock(t, c, "n", client.Holder("job"))
		inner := mustLock(t, c, "n", client.Holder("job"))
		if outer.Fence() != inner.Fence() {
			t.Errorf("fences %d and %d, want the same", outer.Fence(), inner.Fence())
		}
		if err := outer.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if inner.Err() != nil || outer.Err() == nil || f.holder("n") != "job" {
			t.Errorf("inner %v, outer %v, held by %q", inner.Err(), outer.Err(), f.holder("n"))
		}
		again := mustLock(t, c, "n", client.Holder("job"))
		f.session(0).send(0, &lockdv1.Lost{
			Hold: &lockdv1.Hold{
				Name: "n", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Holder: "job", Fence: inner.Fence(),
			},
			Reason: lockdv1.Lost_REASON_FORCED,
		})
		<-inner.Lost()
		<-again.Lost()
	})
}

func TestFixedLeaseEndsUnlessExtended(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n", client.Lease(time.Minute))
		time.Sleep(50 * time.Second)
		if err := l.Extend(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		if err := l.Err(); err != nil {
			t.Errorf("before the extended end: %v", err)
		}
		time.Sleep(time.Second)
		wantLost(t, l, client.LostDeadline)
		wantError(t, l.Extend(t.Context(), time.Minute), client.ErrLost)
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

func wantLost(t testing.TB, l *client.Lock, reason client.LostReason) {
	t.Helper()
	lost, ok := errors.AsType[*client.LostError](l.Err())
	if !ok || lost.Reason != reason || lost.Name != l.Name() {
		t.Errorf("got %v, want it lost: %s", l.Err(), reason)
	}
	if l.Err() == nil {
		return
	}
	<-l.Lost()
	wantError(t, context.Cause(l.Context()), client.ErrLost)
}

func TestErrorsOfTheServer(t *testing.T) {
	rows := []struct {
		reason string
		code   codes.Code
		want   error
	}{
		{"LOCK_CONFIG_MISMATCH", codes.FailedPrecondition, client.ErrKindMismatch},
		{"LOCK_UPGRADE", codes.FailedPrecondition, client.ErrUpgrade},
		{"BACKEND_UNAVAILABLE", codes.Unavailable, client.ErrUnavailable},
		{"OUTCOME_UNKNOWN", codes.Unavailable, client.ErrOutcomeUnknown},
		{"UNIMPLEMENTED", codes.Unimplemented, client.ErrUnsupported},
		{"STORE_FULL", codes.ResourceExhausted, client.ErrStoreFull},
		{"QUOTA_WAITERS", codes.ResourceExhausted, client.ErrQuota},
		{"INVALID_NAME", codes.InvalidArgument, client.ErrInvalid},
		{"SESSION_EXPIRED", codes.NotFound, client.ErrSessionExpired},
	}
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		for _, row := range rows {
			f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
				if r.GetAcquire() != nil {
					s.send(r.GetRequestId(), failure(row.code, row.reason))
				}
				return r.GetAcquire() != nil
			})
			_, err := c.Lock(t.Context(), "n")
			wantError(t, err, row.want)
			if got := client.Reason(err); got != row.reason {
				t.Errorf("reason %q, want %q", got, row.reason)
			}
			if st, _ := status.FromError(err); st.Code() != row.code {
				t.Errorf("code %v, want %v", st.Code(), row.code)
			}
		}
	})
}

func TestTextsThatWouldBreakTheStreamAreRefused(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		held := mustLock(t, c, "n")
		for _, name := range []string{strings.Repeat("x", 513), "\xff"} {
			_, err := c.Lock(t.Context(), name)
			wantError(t, err, client.ErrInvalid)
			_, err = c.Watch(t.Context(), name)
			wantError(t, err, client.ErrInvalid)
		}
		time.Sleep(time.Minute)
		if err := held.Err(); err != nil {
			t.Errorf("another lock: %v", err)
		}
	})
}

// TestTextsThatNoMessageCanHave are refused before anything is connected: the server is away.
func TestTextsThatNoMessageCanHave(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.setDown(addrA, true)
		c := f.dialAt(t, addrA)
		const bad = "n\xff"
		_, lock := c.Lock(t.Context(), bad)
		_, try := c.TryLock(t.Context(), "n", client.Holder(bad))
		_, note := c.Lock(t.Context(), "n", client.Annotation(bad))
		_, all := c.LockAll(t.Context(), []client.Item{{Name: "n"}, {Name: bad}})
		_, look := c.Look(t.Context(), bad)
		_, limit := c.SetLimit(t.Context(), bad, 1)
		_, watch := c.Watch(t.Context(), bad)
		var holds error
		for _, holds = range c.Holds(t.Context(), bad) {
		}
		_, named := client.Dial(addrA, client.WithName(bad))
		_, labels := client.Dial(addrA, client.WithLabels(map[string]string{"a": bad}))
		_, actor := client.Dial(addrA, client.WithActor(bad))
		for reason, errs := range map[string][]error{
			"INVALID_NAME": {lock, all, look, limit, watch, holds}, "INVALID_HOLDER": {try}, "INVALID_ANNOTATION": {note},
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
