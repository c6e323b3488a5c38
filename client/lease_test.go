package client_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// earlier is what d is for a client that counts carefully.
func earlier(d time.Duration) time.Duration { return d - d/100 - 2*time.Millisecond }

// without is a hook that leaves out what the others answer.
func without(s *silence) func(*fakeSession, *lockdv1.SessionRequest) bool {
	return func(fs *fakeSession, r *lockdv1.SessionRequest) bool {
		return r.GetExtend() != nil && s.hook(fs, r)
	}
}

func wantValid(t *testing.T, what string, l *client.Lock, want time.Duration) {
	t.Helper()
	if d := l.ValidFor(); d < want-time.Microsecond || d > want {
		t.Errorf("%s: valid for %v, want %v", what, d, want)
	}
}

// holds is what the server says that a client holds.
func holds(c *client.Client, prefix string) (all []client.Held, err error) {
	for h, err := range c.Holds(context.Background(), prefix) {
		if err != nil {
			return all, err
		}
		all = append(all, h)
	}
	return all, nil
}

// While a Shorten is under way neither heartbeats nor an Extend sent before it bring the old end back.
func TestTheEarlierEndCountsFromTheRequestOn(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		auto := mustLock(t, c, "auto")
		fixed := mustLock(t, c, "fixed", client.Lease(time.Minute))
		other := mustLock(t, c, "other")
		var s silence
		f.setHook(without(&s))
		begun := time.Now()
		go func() { _ = fixed.Extend(t.Context(), time.Hour) }()
		synctest.Wait()
		go func() { _ = fixed.Shorten(t.Context(), 40*time.Second) }()
		go func() { _ = auto.Shorten(t.Context(), 20*time.Second) }()
		synctest.Wait()
		wantValid(t, "auto", auto, earlier(20*time.Second))
		wantValid(t, "fixed", fixed, earlier(40*time.Second))
		time.Sleep(15 * time.Second) // a heartbeat was answered
		wantValid(t, "auto after a heartbeat", auto, earlier(20*time.Second)-15*time.Second)
		if other.ValidFor() < 20*time.Second {
			t.Errorf("the heartbeats of others are not heard: %v", other.ValidFor())
		}
		time.Sleep(time.Until(begun.Add(earlier(20 * time.Second))))
		wantLost(t, auto, client.LostDeadline)
		wantValid(t, "fixed before the answer", fixed, earlier(40*time.Second)-earlier(20*time.Second))
		s.end()
		synctest.Wait()
		wantValid(t, "fixed after the answer", fixed, 40*time.Second)
	})
}

// An answer of an earlier request that comes first must not bring the old end back.
func TestAnEarlierExtendDoesNotUndoAShorten(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n", client.Lease(time.Minute))
		first := make(chan func(), 2)
		f.setHook(func(fs *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetExtend() == nil {
				return false
			}
			first <- func() {
				fs.send(r.GetRequestId(), &lockdv1.Extended{Validity: fs.validity(r.GetExtend().GetLease().AsDuration())})
			}
			return true
		})
		go func() { _ = l.Extend(t.Context(), time.Hour) }()
		synctest.Wait()
		go func() { _ = l.Shorten(t.Context(), 20*time.Second) }()
		synctest.Wait()
		(<-first)()
		synctest.Wait()
		wantValid(t, "between the answers", l, earlier(20*time.Second))
		(<-first)()
		synctest.Wait()
		wantValid(t, "after both answers", l, 20*time.Second)
	})
}

// What ends a lease earlier ends it at that time, with the alarm that was set for a later one.
func TestAShortenedLeaseEndsOnTime(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		for _, opts := range [][]client.LockOption{nil, {client.Lease(time.Hour)}, {client.Holder("job")}} {
			mustLock(t, c, "another", append(opts, client.Holder("x"))...)
			l := mustLock(t, c, "n", opts...)
			outer := l
			if opts != nil && l.ValidFor() <= 5*time.Minute {
				outer = mustLock(t, c, "n", opts...) // the same hold
			}
			begun := time.Now()
			if err := l.Shorten(t.Context(), 10*time.Second); err != nil {
				t.Fatal(err)
			}
			<-l.Context().Done()
			<-outer.Context().Done()
			if d := time.Since(begun); d != 10*time.Second {
				t.Errorf("ended after %v, want 10 s", d)
			}
			wantLost(t, outer, client.LostDeadline)
			synctest.Wait()
		}
	})
}

func TestAGrantUnderWayDoesNotUndoAShorten(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n", client.Holder("job"))
		f.setHook(without(new(silence)))
		go func() { _ = l.Shorten(t.Context(), 20*time.Second) }()
		synctest.Wait()
		inner := mustLock(t, c, "n", client.Holder("job"))
		for _, same := range []*client.Lock{l, inner} {
			wantValid(t, "a Lock of the hold", same, earlier(20*time.Second))
		}
	})
}

// What was surely not done leaves the old end; else the earlier one stays.
func TestARefusedShorten(t *testing.T) {
	for _, row := range []struct {
		reason string
		code   codes.Code
		want   time.Duration
	}{
		{"BACKEND_UNAVAILABLE", codes.Unavailable, time.Minute},
		{"INVALID_DURATION", codes.InvalidArgument, time.Minute},
		{"OUTCOME_UNKNOWN", codes.Unavailable, earlier(20 * time.Second)},
		{"LOCK_NOT_HELD", codes.FailedPrecondition, earlier(20 * time.Second)},
		{"", codes.Internal, earlier(20 * time.Second)},
	} {
		bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
			l := mustLock(t, f.dial(t), "n", client.Lease(time.Minute))
			f.setHook(func(fs *fakeSession, r *lockdv1.SessionRequest) bool {
				if r.GetExtend() != nil {
					fs.send(r.GetRequestId(), failure(row.code, row.reason))
				}
				return r.GetExtend() != nil
			})
			if err := l.Shorten(t.Context(), 20*time.Second); err == nil {
				t.Errorf("%q: no error", row.reason)
			}
			wantValid(t, row.reason, l, row.want)
		})
	}
}

// An auto lease follows the heartbeats, a fixed one does not.
func TestALeaseChangesItsMode(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		var asked []*lockdv1.Extend
		f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool {
			if e := r.GetExtend(); e != nil {
				asked = append(asked, e)
			}
			return false
		})
		wantError(t, l.Extend(t.Context(), time.Minute), client.ErrAutoLease)
		if err := l.MakeFixed(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		if err := l.Extend(t.Context(), 2*time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(110 * time.Second) // heartbeats were answered
		wantValid(t, "fixed", l, 10*time.Second)
		if err := l.MakeAuto(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantError(t, l.Extend(t.Context(), time.Minute), client.ErrAutoLease)
		time.Sleep(time.Hour)
		if err := l.Err(); err != nil {
			t.Error(err)
		}
		if len(asked) != 3 || asked[0].GetLease() == nil || asked[2].GetLease() != nil ||
			slices.ContainsFunc(asked, (*lockdv1.Extend).GetMayShorten) {
			t.Errorf("asked %v", asked)
		}
	})
}

// A Shorten whose answer is lost: the lock is over at the earlier end, and given back then.
func TestALostAnswerOfAShorten(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		l := mustLock(t, f.dial(t), "n", client.Lease(time.Hour))
		f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool { return r.GetExtend() != nil })
		wantError(t, l.Shorten(t.Context(), 10*time.Second), client.ErrOutcomeUnknown)
		if err := l.Err(); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(5 * time.Second)
		wantLost(t, l, client.LostDeadline)
		synctest.Wait()
		if h := f.holder("n"); h != "" {
			t.Errorf("%s still holds it", h)
		}
	})
}

// A Shorten whose answer is lost, and whose lock is over before the call gives up: both are told.
func TestALostAnswerOfAShortenThatOutlivesTheLock(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		l := mustLock(t, f.dial(t), "n", client.Lease(time.Hour))
		f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool { return r.GetExtend() != nil })
		err := l.Shorten(t.Context(), time.Second)
		wantError(t, err, client.ErrOutcomeUnknown)
		wantError(t, err, client.ErrLost)
	})
}

func TestSenselessChangesAreRefused(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l, pool := mustLock(t, c, "n"), mustLock(t, c, "pool", client.Permits(2, 2))
		wantError(t, l.Shorten(t.Context(), 0), client.ErrInvalid)
		_, err := l.KeepPermits(t.Context(), 1)
		wantError(t, err, client.ErrInvalid)
		_, err = pool.KeepPermits(t.Context(), 0)
		wantError(t, err, client.ErrInvalid)
		for _, same := range []*client.Lock{l, pool} {
			if err := same.Err(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A question that only looks is asked again when the stream breaks; a change is not, as it may have been done.
func TestQuestionsWhenTheStreamBreaks(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		broken := 0
		f.setHook(func(fs *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetLook() == nil && r.GetSetLimit() == nil || broken%2 == 1 {
				return false
			}
			broken++
			fs.end(nil)
			return true
		})
		info, err := c.Look(t.Context(), "n")
		if err != nil || info.Name != "n" || broken != 1 {
			t.Errorf("got %+v, %v, broken %d", info, err, broken)
		}
		broken = 0
		_, err = c.SetLimit(t.Context(), "pool", 3)
		wantError(t, err, client.ErrOutcomeUnknown)
		if previous, err := c.SetLimit(t.Context(), "pool", 3); err != nil || previous != 4 {
			t.Errorf("got %d, %v", previous, err)
		}
	})
}

// What a client is told of its holds counts as carefully as its Locks do.
func TestHoldsCountAsLocksDo(t *testing.T) {
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		pages := map[string]string{"": "1", "1": "2", "2": ""}
		f.setHook(func(fs *fakeSession, r *lockdv1.SessionRequest) bool {
			list := r.GetListHolds()
			if list != nil {
				fs.sendRaw(&lockdv1.SessionResponse{RequestId: r.GetRequestId(), Message: &lockdv1.SessionResponse_HoldList{
					HoldList: &lockdv1.HoldList{NextPageToken: pages[list.GetPageToken()], Locks: []*lockdv1.HeldLock{{
						Hold:     &lockdv1.Hold{Name: list.GetPrefix() + list.GetPageToken()},
						Validity: &lockdv1.Validity{Remaining: durationpb.New(5 * time.Minute)},
					}}},
				}})
			}
			return list != nil
		})
		all, err := holds(c, "p")
		if err != nil || len(all) != 3 || all[0].Name != "p" || all[2].Name != "p2" {
			t.Fatalf("got %v, %v", all, err)
		}
		if !all[1].Deadline.Equal(l.Deadline()) {
			t.Errorf("until %v, the Lock says %v", all[1].Deadline, l.Deadline())
		}
		for _, err := range c.Holds(t.Context(), "p") {
			if err != nil {
				t.Error(err)
			}
			break
		}
	})
	bubble(t, 5*time.Minute, func(t *testing.T, f *fake) {
		if all, err := holds(f.dial(t), ""); err != nil || len(all) != 0 {
			t.Errorf("without a session: got %v, %v", all, err)
		}
	})
}
