package client_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// statuses collects what WithOnStatus is told.
type statuses struct {
	mu   sync.Mutex
	seen []client.Status
}

func (s *statuses) add(st client.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, st)
}

func (s *statuses) had(state client.State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.seen, func(st client.Status) bool { return st.State == state })
}

func (s *statuses) last() client.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 {
		return client.Status{}
	}
	return s.seen[len(s.seen)-1]
}

func dropHeartbeats(_ *fakeSession, r *lockdv1.SessionRequest) bool { return r.GetHeartbeat() != nil }

func TestLostAtTheDeadlineWhenHeartbeatsAreNotAnswered(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		start := time.Now()
		l := mustLock(t, c, "n")
		held := l.Context()
		time.Sleep(11 * time.Second) // one heartbeat was answered, at 10 s
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetHeartbeat() != nil {
				s.send(0, &lockdv1.Safe{}) // any sign of life, so that silence does not end the session
			}
			return r.GetHeartbeat() != nil
		})
		<-held.Done()
		if d := time.Since(start); d != 40*time.Second {
			t.Errorf("lost after %v, want 40 s: the sending of the answered heartbeat + its valid_for", d)
		}
		wantLost(t, l, client.LostDeadline)
	})
}

func TestDeadlineCountsFromTheSendingOfTheAnchor(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		start := time.Now()
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() == nil {
				return false
			}
			// The answer names the heartbeat of 10 s as it was 3 s later, and is then 4 s under way.
			time.Sleep(4 * time.Second)
			s.send(r.GetRequestId(), &lockdv1.Granted{
				Holds: []*lockdv1.Hold{{Name: "n", Holder: "#x", Fence: 7}},
				Validity: &lockdv1.Validity{
					Remaining: durationpb.New(5 * time.Second), Anchor: 1,
					AnchorAge: durationpb.New(3 * time.Second),
				},
			})
			return true
		})
		time.Sleep(13 * time.Second)
		l := mustLock(t, c, "n")
		if d := l.Deadline().Sub(start); d != 18*time.Second {
			t.Errorf("deadline %v after the start, want 10 s + 3 s + 5 s", d)
		}
	})
}

func TestAnswerToAHeartbeatSaysNothingOfLaterGrants(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		start := time.Now()
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() == nil {
				return dropHeartbeats(s, r)
			}
			s.send(0, &lockdv1.HeartbeatAck{SentId: 1, ValidFor: durationpb.New(time.Hour)})
			s.send(r.GetRequestId(), &lockdv1.Granted{
				Auto:     true,
				Holds:    []*lockdv1.Hold{{Name: "n", Holder: "#x", Fence: 7}},
				Validity: &lockdv1.Validity{Remaining: durationpb.New(25 * time.Second)},
			})
			return true
		})
		time.Sleep(11 * time.Second)
		l := mustLock(t, c, "n")
		if d := l.Deadline().Sub(start); d != 25*time.Second {
			t.Errorf("deadline %v after the start, want the one of the grant, 25 s", d)
		}
	})
}

func TestExpiredLockIsReleasedAtTheServer(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetHeartbeat() != nil { // the server is there, but knows of no renewal
				s.send(0, &lockdv1.HeartbeatAck{SentId: r.GetHeartbeat().GetSentId()})
			}
			return r.GetHeartbeat() != nil
		})
		l := mustLock(t, c, "n")
		time.Sleep(30 * time.Second)
		wantLost(t, l, client.LostDeadline)
		synctest.Wait()
		if h := f.holder("n"); h != "" {
			t.Errorf("%q still holds the name", h)
		}
		wantError(t, l.Unlock(t.Context()), client.ErrLost)
	})
}

func TestBrokenStreamEndsItsLocksAndConnectsAgain(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dial(t, client.WithOnStatus(seen.add))
		l := mustLock(t, c, "n")
		f.session(0).end(errGone)
		<-l.Lost()
		wantLost(t, l, client.LostSession)
		wantError(t, l.Err(), client.ErrSuperseded)
		wantError(t, l.Unlock(t.Context()), client.ErrLost)
		if again := mustLock(t, c, "n"); again.Fence() <= l.Fence() {
			t.Errorf("fence %d after %d", again.Fence(), l.Fence())
		}
		synctest.Wait()
		if st := seen.last(); st.State != client.Connected {
			t.Errorf("last status %+v, want connected", st)
		}
	})
}

func TestWaitingLockIsAskedAgainWithWhatIsLeftOfItsWait(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		a, b := f.dial(t), f.dial(t)
		l := mustLock(t, a, "n")
		waits := make(chan time.Duration, 8)
		f.setHook(func(_ *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() != nil {
				waits <- r.GetAcquire().GetWait().AsDuration()
			}
			return false
		})
		got := make(chan *client.Lock, 1)
		go func() { got <- mustLock(t, b, "n", client.Wait(time.Minute)) }()
		time.Sleep(20 * time.Second)
		f.session(1).end(status.Error(codes.Unavailable, "cable cut"))
		time.Sleep(5 * time.Second)
		if first, second := <-waits, <-waits; first != time.Minute || second > 40*time.Second || second < 39*time.Second {
			t.Errorf("waits %v and %v, want 1m and what is left: 40 s less the pause", first, second)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-got
	})
}

func TestTryLockInFlightHasAnUnknownOutcome(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		mustLock(t, c, "warm")
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire() != nil {
				s.end(errGone)
			}
			return r.GetAcquire() != nil
		})
		_, err := c.TryLock(t.Context(), "n")
		wantError(t, err, client.ErrOutcomeUnknown, client.ErrUnavailable)
	})
}

func TestUnlockInFlightHasAnUnknownOutcome(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetRelease().GetName() == "cut" {
				s.end(errGone)
			}
			return r.GetRelease() != nil
		})
		l := mustLock(t, c, "slow")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantError(t, l.Unlock(ctx), client.ErrOutcomeUnknown, context.DeadlineExceeded)
		l = mustLock(t, c, "cut")
		wantError(t, l.Unlock(t.Context()), client.ErrOutcomeUnknown)
	})
}

func TestSilentServerIsLeft(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dial(t, client.WithOnStatus(seen.add))
		mustLock(t, c, "warm")
		f.setHook(func(*fakeSession, *lockdv1.SessionRequest) bool { return true }) // deaf, also for Open
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.TryLock(ctx, "n")
		wantError(t, err, client.ErrOutcomeUnknown, client.ErrSilent)
		synctest.Wait()
		if st := seen.last(); st.State != client.Disconnected {
			t.Errorf("last status %+v", st)
		}
		for _, s := range f.sessions {
			s.end(nil)
		}
	})
}

func TestNoServer(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.grpc.Stop()
		c := f.dial(t, client.WithConnectWait(5*time.Second))
		_, err := c.TryLock(t.Context(), "n")
		wantError(t, err, client.ErrUnavailable)
		start := time.Now()
		_, err = c.Lock(t.Context(), "n")
		wantError(t, err, client.ErrUnavailable)
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("waited %v for a connection", d)
		}
		_, err = c.Lock(t.Context(), "n", client.Wait(time.Second))
		wantError(t, err, client.ErrTimedOut, client.ErrUnavailable)
		go func() {
			time.Sleep(2 * time.Second)
			f.start()
		}()
		mustLock(t, c, "n")
	})
}

func TestHopelessErrorsAreToldAtOnce(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetOpen() != nil {
				s.end(status.Error(codes.PermissionDenied, "not you"))
			}
			return true
		})
		c := f.dial(t)
		for range 2 {
			_, err := c.Lock(t.Context(), "n")
			wantError(t, err, client.ErrDenied)
		}
	})
}

func TestLostReasonsAndStatus(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dial(t, client.WithOnStatus(seen.add))
		l, other := mustLock(t, c, "n"), mustLock(t, c, "other")
		s := f.session(0)
		s.send(0, &lockdv1.AtRisk{Validity: s.validity(7 * time.Second)})
		synctest.Wait()
		if st := seen.last(); st.State != client.AtRisk || st.ValidFor != 7*time.Second {
			t.Errorf("got %+v", st)
		}
		s.send(0, &lockdv1.Lost{
			Hold: &lockdv1.Hold{
				Name: "n", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Holder: f.holder("n"), Fence: l.Fence(),
			},
			Reason: lockdv1.Lost_REASON_DATA_LOSS,
		})
		s.send(0, &lockdv1.Safe{})
		<-l.Lost()
		wantLost(t, l, client.LostData)
		synctest.Wait()
		if st := seen.last(); st.State != client.Safe || other.Err() != nil {
			t.Errorf("got %+v, the other lock: %v", st, other.Err())
		}
	})
}

func TestClosingTellsWhy(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		s := f.session(0)
		s.send(0, &lockdv1.Closing{Failure: failure(codes.ResourceExhausted, "STREAM_BACKLOG").GetFailure()})
		s.end(nil)
		<-l.Lost()
		wantError(t, l.Err(), client.ErrBacklog)
		if r := client.Reason(l.Err()); r != "LOCK_LOST" {
			t.Errorf("reason %q", r)
		}
	})
}

func TestCloseReleasesAll(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		waited := make(chan error, 1)
		go func() {
			_, err := c.Lock(t.Context(), "n")
			waited <- err
		}()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if h := f.holder("n"); h != "" {
			t.Errorf("%q still holds the name", h)
		}
		wantError(t, l.Err(), client.ErrClosed)
		wantError(t, <-waited, client.ErrClosed)
		_, err := c.TryLock(t.Context(), "n")
		wantError(t, err, client.ErrClosed)
		wantError(t, c.Close(), nil)
	})
}

func TestCloseIsBounded(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetRelease() != nil {
				<-s.stream.Context().Done() // reads no further
			}
			return false
		})
		c := f.dial(t)
		l := mustLock(t, c, "n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Unlock(ctx); err == nil {
			t.Fatal("unlocked by a deaf server")
		}
		start := time.Now()
		if err := c.Close(); !errors.Is(err, client.ErrOutcomeUnknown) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v, want an unknown outcome after 2 s", err, time.Since(start))
		}
	})
}

// TestAHeartbeatIsSentEarlyWhenTheValidityIsShort has a server answer one heartbeat with a validity that would end soon
// after the next one: a lease was not renewed in time. What it tells a little later counts before the locks are given
// up.
func TestAHeartbeatIsSentEarlyWhenTheValidityIsShort(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			b := r.GetHeartbeat()
			if b == nil {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
			valid := 20 * time.Second
			if len(at) == 2 {
				valid = 14 * time.Second
			}
			s.send(0, &lockdv1.HeartbeatAck{SentId: b.GetSentId(), ValidFor: durationpb.New(valid)})
			return true
		})
		mustLock(t, c, "n")
		time.Sleep(33 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		want := []time.Duration{10 * time.Second, 20 * time.Second, 22500 * time.Millisecond, 32500 * time.Millisecond}
		if !slices.Equal(at, want) {
			t.Errorf("heartbeats after %v, want %v", at, want)
		}
	})
}
