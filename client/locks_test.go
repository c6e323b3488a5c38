package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

func items(names ...string) []client.Item {
	var is []client.Item
	for _, name := range names {
		is = append(is, client.Item{Name: name})
	}
	return is
}

func mustLockAll(t testing.TB, c *client.Client, is []client.Item, opts ...client.LockOption) *client.Locks {
	t.Helper()
	ls, err := c.LockAll(t.Context(), is, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return ls
}

// acquires has the fake tell what is asked for.
func acquires(f *fake) <-chan *lockdv1.Acquire {
	asked := make(chan *lockdv1.Acquire, 100)
	f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool {
		if a := r.GetAcquire(); a != nil {
			asked <- a
		}
		return false
	})
	return asked
}

func TestWhatIsAskedFor(t *testing.T) {
	const (
		fair      = lockdv1.LockKind_LOCK_KIND_FAIR
		read      = lockdv1.LockKind_LOCK_KIND_READ
		write     = lockdv1.LockKind_LOCK_KIND_WRITE
		exclusive = lockdv1.LockKind_LOCK_KIND_EXCLUSIVE
		semaphore = lockdv1.LockKind_LOCK_KIND_SEMAPHORE
	)
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		asked := acquires(f)
		check := func(want *lockdv1.Acquire) {
			t.Helper()
			if got := <-asked; !proto.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		one := func(opts ...client.LockOption) {
			t.Helper()
			if err := mustLock(t, c, "n", opts...).Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		all := func(is []client.Item, opts ...client.LockOption) {
			t.Helper()
			if err := mustLockAll(t, c, is, opts...).Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		one(client.As(client.Fair))
		check(&lockdv1.Acquire{Name: "n", Kind: fair})
		one(client.Permits(3, 7))
		check(&lockdv1.Acquire{Name: "n", Kind: semaphore, Permits: 3, Limit: 7})
		all([]client.Item{{Name: "n", Kind: client.Semaphore, Permits: 2}}) // as a server asked for one lock wants it
		check(&lockdv1.Acquire{Name: "n", Kind: semaphore, Permits: 2})
		all(items("n"), client.As(client.Read))
		check(&lockdv1.Acquire{Name: "n", Kind: read})
		all([]client.Item{{Name: "a"}, {Name: "b", Permits: 2}, {Name: "c", Limit: 9}, {Name: "d", Kind: client.Write}},
			client.Holder("h"), client.Annotation("x"), client.Wait(time.Second), client.Lease(time.Minute))
		check(&lockdv1.Acquire{
			Items: []*lockdv1.AcquireItem{
				{Name: "a", Kind: exclusive},
				{Name: "b", Kind: semaphore, Permits: 2},
				{Name: "c", Kind: semaphore, Limit: 9},
				{Name: "d", Kind: write},
			},
			Holder: "h", Annotation: "x", Wait: durationpb.New(time.Second), Lease: durationpb.New(time.Minute),
		})
		all(append(items("a"), client.Item{Name: "b", Kind: client.Fair}), client.Permits(2, 4))
		check(&lockdv1.Acquire{Items: []*lockdv1.AcquireItem{
			{Name: "a", Kind: semaphore, Permits: 2, Limit: 4}, {Name: "b", Kind: fair},
		}})
	})
}

func TestLocksAreHeldTogether(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c, other := f.dial(t), f.dial(t)
		ls := mustLockAll(t, c, []client.Item{{Name: "b", Kind: client.Write}, {Name: "a"}, {Name: "c", Kind: client.Fair}})
		var got []string
		for _, l := range ls.All() {
			got = append(got, fmt.Sprint(l.Name(), " ", l.Kind(), " ", l.Fence()))
		}
		if want := []string{"b write 1", "a exclusive 2", "c fair 3"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		_, err := other.TryLockAll(t.Context(), items("z", "a"))
		wantError(t, err, client.ErrHeld)
		if f.holder("z") != "" {
			t.Error("one of two is held after a try for both")
		}
		time.Sleep(time.Hour)
		if err := ls.Err(); err != nil || ls.Context().Err() != nil {
			t.Errorf("after an hour: %v", err)
		}
		if v := ls.ValidFor(); v < 20*time.Second || v > 30*time.Second || time.Until(ls.Deadline()) != v {
			t.Errorf("valid for %v, until %v", v, ls.Deadline())
		}
		held := ls.Context()
		for range 2 {
			if err := ls.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		<-held.Done()
		wantError(t, context.Cause(held), client.ErrUnlocked)
		wantError(t, ls.Err(), client.ErrUnlocked)
		wantError(t, ls.Context().Err(), context.Canceled)
		select {
		case <-ls.Lost():
			t.Error("Lost is closed after Unlock")
		default:
		}
		for _, name := range []string{"a", "b", "c"} {
			if h := f.holder(name); h != "" {
				t.Errorf("%s is held by %s", name, h)
			}
		}
	})
}

func TestOneOfSeveralIsLost(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		type key struct{}
		ls, err := c.LockAll(context.WithValue(t.Context(), key{}, "value"), items("a", "b", "c"))
		if err != nil {
			t.Fatal(err)
		}
		held, all := ls.Context(), ls.All()
		if held.Value(key{}) != "value" {
			t.Error("the context lost its values")
		}
		f.session(0).send(0, &lockdv1.Lost{
			Hold: &lockdv1.Hold{
				Name: "b", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Holder: f.holder("b"), Fence: all[1].Fence(),
			},
			Reason: lockdv1.Lost_REASON_FORCED,
		})
		<-ls.Lost()
		<-held.Done()
		wantLost(t, all[1], client.LostForced)
		wantError(t, context.Cause(held), client.ErrLost)
		lost, ok := errors.AsType[*client.LostError](ls.Err())
		if !ok || lost.Name != "b" || lost.Reason != client.LostForced {
			t.Errorf("got %v", ls.Err())
		}
		if all[0].Err() != nil || all[2].Err() != nil || ls.ValidFor() != 0 {
			t.Errorf("the others: %v, %v; valid for %v", all[0].Err(), all[2].Err(), ls.ValidFor())
		}
		for range 2 {
			err = ls.Unlock(t.Context())
			wantError(t, err, client.ErrLost)
			if n := strings.Count(err.Error(), "unlock"); n != 1 {
				t.Errorf("got %q, want what is wrong with b only", err)
			}
		}
		if f.holder("a") != "" || f.holder("c") != "" {
			t.Error("the others are still held")
		}
	})
}

func TestUnlockOfOneOfSeveral(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		ls := mustLockAll(t, f.dial(t), items("a", "b"))
		if err := ls.All()[0].Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantError(t, ls.Err(), client.ErrUnlocked)
		if err := ls.All()[1].Err(); err != nil || f.holder("b") == "" {
			t.Errorf("the other: %v", err)
		}
		f.session(0).end(errGone)
		<-ls.Lost()
		wantError(t, ls.Err(), client.ErrLost)
		wantError(t, ls.Unlock(t.Context()), client.ErrLost)
	})
}

func TestLocksAreLostAtTheirDeadline(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		ls := mustLockAll(t, f.dial(t), items("a", "b"), client.Lease(time.Minute))
		if err := ls.All()[0].Extend(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		<-ls.Context().Done()
		<-ls.Lost()
		if d := time.Since(begun); d != time.Minute {
			t.Errorf("lost after %v", d)
		}
		wantLost(t, ls.All()[1], client.LostDeadline)
		synctest.Wait()
		if f.holder("a") == "" || f.holder("b") != "" {
			t.Error("want the lost one given back, and no other")
		}
	})
}

func TestLockAllOutlivesAnInterruption(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		a, b := f.dial(t), f.dial(t)
		l := mustLock(t, a, "y")
		asked := acquires(f)
		got := make(chan *client.Locks, 1)
		var positions atomic.Int32
		go func() {
			got <- mustLockAll(t, b, items("x", "y"), client.Wait(time.Minute), client.OnQueued(func(int) { positions.Add(1) }))
		}()
		time.Sleep(20 * time.Second)
		f.session(1).end(status.Error(codes.Unavailable, "cable cut"))
		time.Sleep(5 * time.Second)
		first, second := <-asked, <-asked
		if left := second.GetWait().AsDuration(); left > 40*time.Second || left < 39*time.Second ||
			len(second.GetItems()) != 2 {
			t.Errorf("asked for %v, then %v; want both, with what is left of the wait", first, second)
		}
		if f.holder("x") != "" {
			t.Error("holds one while it waits for the other")
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if ls := <-got; len(ls.All()) != 2 || ls.Err() != nil || positions.Load() != 2 {
			t.Errorf("got %v, %v, queued %d times", ls.All(), ls.Err(), positions.Load())
		}
	})
}

func TestTryLockAllInFlightHasAnUnknownOutcome(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() != nil {
				s.end(errGone)
			}
			return r.GetAcquire() != nil
		})
		_, err := c.TryLockAll(t.Context(), items("a", "b"))
		wantError(t, err, client.ErrOutcomeUnknown, client.ErrUnavailable)
	})
}

// A grant of several that comes when nobody waits any more is given back, every part of it.
func TestAbandonedGrantsAreGivenBack(t *testing.T) {
	for name, late := range map[string]time.Duration{"after the end": 2 * time.Second, "at the end": time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
				c := f.dial(t)
				mustLock(t, c, "warm")
				f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
					if r.GetAcquire() == nil {
						return r.GetCancel() != nil
					}
					time.AfterFunc(late, func() { s.acquire(r.GetRequestId(), r.GetAcquire()) })
					return true
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ls, err := c.LockAll(ctx, items("a", "b"), client.OnQueued(func(int) {}))
				time.Sleep(5 * time.Second)
				if err == nil { // it came first
					if err := ls.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
					return
				}
				wantError(t, err, client.ErrCancelled, context.DeadlineExceeded)
				if f.holder("a") != "" || f.holder("b") != "" {
					t.Error("something is still held")
				}
			})
		})
	}
}

func TestCancelledLockAllIsTakenBack(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.LockAll(ctx, items("a", "b"))
		wantError(t, err, client.ErrCancelled)
		_, err = c.LockAll(t.Context(), items("a", "b"), client.Wait(time.Second))
		wantError(t, err, client.ErrTimedOut)
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if f.holder("a") != "" || f.holder("b") != "" {
			t.Error("something is held that nobody waits for")
		}
	})
}

func TestAGrantOfTheWrongLocksIsGivenBack(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			a := r.GetAcquire()
			if a == nil || len(a.GetItems()) != 2 {
				return false
			}
			s.acquire(r.GetRequestId(), &lockdv1.Acquire{Items: append(a.GetItems(), &lockdv1.AcquireItem{Name: "more"})})
			return true
		})
		_, err := c.LockAll(t.Context(), items("a", "b"))
		if r := client.Reason(err); r != "PROTOCOL" {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		for _, name := range []string{"a", "b", "more"} {
			if f.holder(name) != "" {
				t.Errorf("%s is still held", name)
			}
		}
	})
}

func TestWhatNoServerIsAsked(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		held := mustLock(t, c, "held")
		for _, is := range [][]client.Item{nil, items("a", strings.Repeat("x", 513)), items("a", "\xff")} {
			_, err := c.LockAll(t.Context(), is)
			wantError(t, err, client.ErrInvalid)
		}
		_, err := c.LockAll(t.Context(), items("1", "2", "3", "4", "5"))
		wantError(t, err, client.ErrQuota)
		if err := held.Err(); err != nil {
			t.Error(err)
		}
	})
}

func TestOnQueuedIsToldEachPosition(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() == nil {
				return false
			}
			messages := []*lockdv1.SessionResponse{}
			for _, position := range []uint32{7, 3, 0} {
				messages = append(messages, &lockdv1.SessionResponse{
					RequestId: r.GetRequestId(), Message: &lockdv1.SessionResponse_Queued{Queued: &lockdv1.Queued{Position: position}},
				})
			}
			messages = append(messages, &lockdv1.SessionResponse{
				RequestId: r.GetRequestId(), Message: &lockdv1.SessionResponse_Granted{Granted: &lockdv1.Granted{
					Holds: []*lockdv1.Hold{{Name: "n", Holder: "#x", Fence: 7}}, Validity: s.validity(time.Minute),
				}},
			})
			s.sendMu.Lock()
			defer s.sendMu.Unlock()
			_ = s.stream.Send(&lockdv1.SessionResponse{Message: &lockdv1.SessionResponse_Batch{
				Batch: &lockdv1.ResponseBatch{Responses: messages},
			}})
			return true
		})
		var told []int
		mustLock(t, c, "n", client.OnQueued(func(position int) { told = append(told, position) }))
		if !slices.Equal(told, []int{7, 3, 0}) { // all before Lock returned
			t.Errorf("told %v", told)
		}
	})
}

func TestALimitMismatchTellsTheLimit(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		for _, limit := range []string{"0", "5"} {
			f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
				if r.GetAcquire() == nil {
					return false
				}
				mismatch := failure(codes.FailedPrecondition, "LOCK_CONFIG_MISMATCH")
				mismatch.Failure.Metadata = map[string]string{"limit": limit}
				s.send(r.GetRequestId(), mismatch)
				return true
			})
			_, err := c.Lock(t.Context(), "n", client.Permits(1, 9))
			wantError(t, err, client.ErrLimitMismatch)
			mismatch, ok := errors.AsType[*client.LimitError](err)
			if !ok || fmt.Sprint(mismatch.Limit) != limit || errors.Is(err, client.ErrKindMismatch) ||
				client.Reason(err) != "LOCK_CONFIG_MISMATCH" {
				t.Errorf("got %v", err)
			}
		}
		wantError(t, &client.LimitError{Limit: 5}, client.ErrLimitMismatch)
	})
}
