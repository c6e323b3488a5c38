package client_test

import (
	"context"
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

const (
	addrA, addrB = "10.0.0.1:7420", "10.0.0.2:7420"
	both         = addrA + "," + addrB
)

var errCut = status.Error(codes.Unavailable, "cable cut")

// kept is bubble with a fake whose sessions can be resumed.
func kept(t *testing.T, ttl time.Duration, test func(t *testing.T, f *fake)) {
	t.Helper()
	bubble(t, ttl, func(t *testing.T, f *fake) {
		test(t, f)
	})
}

// opened collects what is sent to resume sessions; refuse, if it is not nil, answers in place of the fake.
type opened struct {
	mu     sync.Mutex
	seen   []*lockdv1.Resume
	refuse func(n int) error
}

func (o *opened) hook(s *fakeSession, r *lockdv1.SessionRequest) bool {
	resume := r.GetOpen().GetResume()
	if resume == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = append(o.seen, resume)
	if o.refuse == nil {
		return false
	}
	err := o.refuse(len(o.seen))
	if err != nil {
		s.end(err)
	}
	return err != nil
}

func (o *opened) all() []*lockdv1.Resume {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen)
}

func TestALockOutlivesItsStream(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dialAt(t, both, client.WithOnStatus(seen.add))
		l := mustLock(t, c, "n")
		held := l.Context()
		time.Sleep(12 * time.Second)
		begun := time.Now()
		f.session(0).end(errCut)
		synctest.Wait()
		if n := f.opens(); n != 2 || time.Since(begun) != 0 {
			t.Fatalf("%d streams after %v, want another one at once", n, time.Since(begun))
		}
		if d := f.dials(); !slices.Equal(d, []string{addrA, addrB}) {
			t.Errorf("dialled %v", d)
		}
		if d := time.Until(l.Deadline()); d != 30*time.Second {
			t.Errorf("valid for %v after resuming, want what was told", d)
		}
		if seen.last().State != client.Connected || !seen.had(client.Interrupted) || seen.had(client.Disconnected) {
			t.Errorf("told %+v", seen.seen)
		}
		time.Sleep(time.Hour) // heartbeats go on
		if held.Err() != nil || l.Err() != nil {
			t.Fatalf("the lock: %v", l.Err())
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		if h := f.holder("n"); h != "" {
			t.Errorf("%q still holds the name", h)
		}
	})
}

// TestAResumedSessionSaysHowOldItIs moves twice, and fails if what people are told of a session and its holds began
// anew.
func TestAResumedSessionSaysHowOldItIs(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		var o opened
		f.setHook(o.hook)
		c := f.dial(t)
		warm := mustLock(t, c, "warm") // a session begins with the first request
		time.Sleep(time.Hour)
		if err := warm.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustLock(t, c, "n", client.Holder("h"), client.Annotation("nightly"))
		time.Sleep(time.Minute)
		mustLock(t, c, "n", client.Holder("h"), client.Annotation("nested"))
		for range 2 {
			time.Sleep(time.Minute)
			f.session(f.opens() - 1).end(errCut)
		}
		time.Sleep(time.Second)
		seen := o.all()
		if len(seen) != 2 {
			t.Fatalf("%d attempts to resume, want 2", len(seen))
		}
		for i, r := range seen {
			held := time.Duration(i+2) * time.Minute
			h := r.GetHolds()[0]
			if r.GetAge().AsDuration() != time.Hour+held || h.GetAge().AsDuration() != held || h.GetAnnotation() != "nightly" {
				t.Errorf("attempt %d: got %v, want a session of an hour and a hold of %v with its annotation", i, r, held)
			}
		}
	})
}

// TestAnnotationsDoNotKeepASessionFromGoingOn has more of them than a frame may have.
func TestAnnotationsDoNotKeepASessionFromGoingOn(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		var o opened
		f.setHook(o.hook)
		c := f.dial(t)
		for i := range 400 {
			mustLock(t, c, fmt.Sprint("n", i), client.Annotation(strings.Repeat("x", 4096)))
		}
		f.session(0).end(errCut)
		time.Sleep(time.Second)
		holds, size := o.all()[0].GetHolds(), 0
		for _, h := range holds {
			size += len(h.GetAnnotation())
		}
		if len(holds) != 400 || size > 1<<20 || size < 1<<19 {
			t.Errorf("%d holds with annotations of %d bytes, want all, and no more than a frame has", len(holds), size)
		}
	})
}

func TestTheDeadlineCountsWhileThereIsNoStream(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		start := time.Now()
		l, fixed := mustLock(t, c, "n"), mustLock(t, c, "fixed", client.Lease(time.Hour))
		held := l.Context()
		time.Sleep(12 * time.Second) // a heartbeat was answered, at 10 s
		var o opened
		o.refuse = func(int) error {
			if time.Since(start) < 50*time.Second {
				return errCut
			}
			return nil
		}
		f.setHook(o.hook)
		f.session(0).end(errCut)
		<-held.Done()
		if d := time.Since(start); d != 40*time.Second {
			t.Errorf("lost after %v, want 40 s", d)
		}
		wantLost(t, l, client.LostDeadline)
		time.Sleep(20 * time.Second) // it is back
		wantLost(t, l, client.LostDeadline)
		if fixed.Err() != nil || f.opens() != 2 {
			t.Errorf("the fixed lock: %v", fixed.Err())
		}
		if h := f.holder("n"); h != "" {
			t.Errorf("%q still holds the name, whose deadline had passed", h)
		}
		epochs := o.all()
		for i, r := range epochs {
			if i > 0 && r.GetEpoch() <= epochs[i-1].GetEpoch() || r.GetEpoch() < 2 {
				t.Fatalf("epoch %d after %d", r.GetEpoch(), epochs[max(i-1, 0)].GetEpoch())
			}
		}
		if len(epochs) < 5 || len(epochs[len(epochs)-1].GetHolds()) != 2 {
			t.Errorf("%d attempts, the last with %v", len(epochs), epochs[len(epochs)-1].GetHolds())
		}
	})
}

// The process was stopped over the deadline, and the first that happens when it continues is that the session goes on.
func TestADeadlineThatPassedStaysPassed(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		c.StopAlarms()
		start := time.Now()
		o := opened{refuse: func(int) error {
			if time.Since(start) < 50*time.Second {
				return errCut
			}
			return nil
		}}
		f.setHook(o.hook)
		f.session(0).end(errCut)
		time.Sleep(time.Minute)
		wantLost(t, l, client.LostDeadline)
		if h := f.holder("n"); h != "" || f.opens() != 2 {
			t.Errorf("%q still holds the name, %d streams", h, f.opens())
		}
	})
}

// The other replica took the session, but nobody heard of it.
func TestAnAttemptWithAnUnknownOutcomeIsRepeatedWithAGreaterEpoch(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dialAt(t, both)
		l := mustLock(t, c, "n")
		var o opened
		o.refuse = func(n int) error {
			if n == 1 {
				f.mu.Lock()
				f.records["session 1"].epoch = o.seen[0].GetEpoch()
				f.mu.Unlock()
				return errCut
			}
			return nil
		}
		f.setHook(o.hook)
		f.session(0).end(errCut)
		time.Sleep(10 * time.Second)
		if err := l.Err(); err != nil || len(o.all()) != 2 {
			t.Errorf("%v after %d attempts", err, len(o.all()))
		}
	})
}

// A replica that has much to do takes the session late. Who gives it up too early has it begin again, and again.
func TestAReplicaThatTakesTheSessionSlowlyIsWaitedFor(t *testing.T) {
	const ttl = time.Minute
	kept(t, ttl, func(t *testing.T, f *fake) {
		c := f.dialAt(t, both)
		l := mustLock(t, c, "n")
		var o opened
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetOpen().GetResume() != nil {
				time.Sleep(ttl/3 - time.Second)
			}
			return o.hook(s, r)
		})
		f.session(0).end(errCut)
		time.Sleep(ttl)
		if err := l.Err(); err != nil || len(o.all()) != 1 {
			t.Errorf("%v after %d attempts", err, len(o.all()))
		}
	})
}

// All clients of a replica come to another one at once: connecting takes long there.
func TestAReplicaThatConnectsSlowlyIsReached(t *testing.T) {
	const ttl = 30 * time.Second
	kept(t, ttl, func(t *testing.T, f *fake) {
		c := f.dialAt(t, both)
		l := mustLock(t, c, "n")
		f.mu.Lock()
		f.far = ttl / 4
		f.mu.Unlock()
		f.setDown(addrA, true)
		f.session(0).end(errCut)
		time.Sleep(2 * ttl)
		if err := l.Err(); err != nil || f.opens() != 2 {
			t.Errorf("%v, %d streams, dialled %v", err, f.opens(), f.dials())
		}
	})
}

func TestWhatIsLostMeanwhileIsToldWithItsReason(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l, other := mustLock(t, c, "n"), mustLock(t, c, "other")
		f.mu.Lock()
		delete(f.held, "n")
		f.mu.Unlock()
		f.session(0).end(errCut)
		<-l.Lost()
		wantLost(t, l, client.LostForced)
		if err := other.Err(); err != nil {
			t.Errorf("the other lock: %v", err)
		}
	})
}

func TestASessionThatIsGoneEndsAllItsLocks(t *testing.T) {
	for reason, code := range map[string]codes.Code{"SESSION_EXPIRED": codes.NotFound, "SUPERSEDED": codes.Aborted} {
		t.Run(reason, func(t *testing.T) {
			kept(t, 30*time.Second, func(t *testing.T, f *fake) {
				var seen statuses
				c := f.dial(t, client.WithOnStatus(seen.add))
				l, fixed := mustLock(t, c, "n"), mustLock(t, c, "fixed", client.Lease(time.Hour))
				o := opened{refuse: func(int) error { return refusal(code, reason) }}
				f.setHook(o.hook)
				f.session(0).end(errCut)
				<-l.Lost()
				<-fixed.Lost()
				wantLost(t, l, client.LostSession)
				if !seen.had(client.Disconnected) {
					t.Errorf("told %+v", seen.seen)
				}
				mustLock(t, c, "another")
				if n := len(o.all()); n != 1 || f.session(1).id != "session 2" {
					t.Errorf("%d attempts to resume, then %s", n, f.session(1).id)
				}
			})
		})
	}
}

// A copy of the process went on with the session.
func TestASupersededStreamEndsTheSession(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		var o opened
		f.setHook(o.hook)
		f.session(0).end(refusal(codes.Aborted, "SUPERSEDED"))
		<-l.Lost()
		wantLost(t, l, client.LostSession)
		wantError(t, l.Err(), client.ErrSuperseded)
		mustLock(t, c, "another")
		if n := len(o.all()); n != 0 {
			t.Errorf("%d attempts to resume", n)
		}
	})
}

func TestAWaitingLockGoesOnWaiting(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		a, b := f.dial(t), f.dial(t)
		l := mustLock(t, a, "n")
		asked := acquires(f)
		got := make(chan *client.Lock, 1)
		go func() { got <- mustLock(t, b, "n", client.Wait(time.Minute)) }()
		time.Sleep(20 * time.Second)
		for range 2 {
			f.session(f.opens() - 1).end(errCut)
			time.Sleep(5 * time.Second)
		}
		first, second, third := <-asked, <-asked, <-asked
		if len(first.GetInsteadOf()) != 0 || len(second.GetInsteadOf()) != 1 || len(third.GetInsteadOf()) != 1 ||
			third.GetInsteadOf()[0] <= second.GetInsteadOf()[0] { // each was told that it waits
			t.Errorf("instead of %d, %d, %d", first.GetInsteadOf(), second.GetInsteadOf(), third.GetInsteadOf())
		}
		if first.GetWaited() != nil || second.GetWaited().GetSeconds() != 20 || third.GetWaited().GetSeconds() != 25 {
			t.Errorf("waited %v, %v, %v; want nothing, 20 s, 25 s", first.GetWaited(), second.GetWaited(), third.GetWaited())
		}
		if d := second.GetWait().AsDuration(); d > 40*time.Second || d < 39*time.Second {
			t.Errorf("waits %v, want what is left", d)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := (<-got).Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// cutAfter has the stream break once when a request comes, which is carried out first if done is set.
func cutAfter(f *fake, done bool, is func(*lockdv1.SessionRequest) bool) {
	var once sync.Once
	f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) (dealt bool) {
		if !is(r) {
			return false
		}
		once.Do(func() {
			dealt = true
			if done {
				f.mu.Lock()
				delete(f.held, r.GetRelease().GetName())
				f.mu.Unlock()
			}
			s.end(errCut)
		})
		return dealt
	})
}

func TestAnUnlockIsAskedAgain(t *testing.T) {
	for what, done := range map[string]bool{"not done": false, "done": true} {
		t.Run(what, func(t *testing.T) {
			kept(t, 30*time.Second, func(t *testing.T, f *fake) {
				c := f.dial(t)
				l := mustLock(t, c, "n")
				cutAfter(f, done, func(r *lockdv1.SessionRequest) bool { return r.GetRelease() != nil })
				if err := l.Unlock(t.Context()); err != nil || f.holder("n") != "" {
					t.Errorf("%v, held by %q", err, f.holder("n"))
				}
				wantError(t, l.Unlock(t.Context()), client.ErrNotHeld)
			})
		})
	}
}

func TestChangesOfALeaseAndTriesAreAskedAgain(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		fixed := mustLock(t, c, "fixed", client.Lease(time.Minute))
		isExtend := func(r *lockdv1.SessionRequest) bool { return r.GetExtend() != nil }
		cutAfter(f, false, isExtend)
		if err := fixed.Extend(t.Context(), time.Hour); err != nil || time.Until(fixed.Deadline()) < 59*time.Minute {
			t.Errorf("%v, until %v", err, time.Until(fixed.Deadline()))
		}
		cutAfter(f, false, isExtend)
		if err := fixed.Shorten(t.Context(), time.Minute); err != nil || time.Until(fixed.Deadline()) > time.Minute {
			t.Errorf("%v, until %v", err, time.Until(fixed.Deadline()))
		}
		cutAfter(f, false, func(r *lockdv1.SessionRequest) bool { return r.GetAcquire() != nil })
		l, err := c.TryLock(t.Context(), "n")
		if err != nil || l.Err() != nil {
			t.Errorf("TryLock: %v", err)
		}
		cutAfter(f, false, func(r *lockdv1.SessionRequest) bool { return r.GetWatch() != nil })
		if _, err := c.Watch(t.Context(), "n"); err != nil || f.watching() != "n" {
			t.Errorf("Watch: %v, watched: %q", err, f.watching())
		}
		cutAfter(f, false, func(r *lockdv1.SessionRequest) bool { return r.GetSetLimit() != nil })
		_, err = c.SetLimit(t.Context(), "n", 3)
		wantError(t, err, client.ErrOutcomeUnknown)
	})
}

// What a try that was given up may have taken is given back.
func TestATryThatWasGivenUpIsTidiedUp(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool { return r.GetAcquire() != nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.TryLock(ctx, "n")
		wantError(t, err, client.ErrOutcomeUnknown)
		asked := acquires(f)
		f.session(0).end(errCut)
		if a := <-asked; len(a.GetInsteadOf()) != 1 || a.GetWait() == nil || a.GetWait().AsDuration() != 0 {
			t.Errorf("asked %v", a)
		}
		synctest.Wait()
		if h := f.holder("n"); h != "" {
			t.Errorf("%q holds the name", h)
		}
	})
}
