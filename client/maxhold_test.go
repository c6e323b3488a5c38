package client_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// A server that goes on to say that all auto leases are valid does not carry a lock beyond its MaxHold, nor does one
// that another replica says is valid for longer. The others live on.
func TestMaxHoldEndsALockWhateverTheServerSays(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c, begun := f.dial(t), time.Now()
		l, other := mustLock(t, c, "n", client.MaxHold(2*time.Minute)), mustLock(t, c, "other")
		time.Sleep(time.Minute)
		f.stream(0).stop <- errCut
		time.Sleep(time.Second)
		holds := f.stream(1).open.GetResume().GetHolds()
		for _, h := range holds {
			want := time.Duration(0)
			if h.GetHold().GetName() == "n" {
				want = time.Minute
			}
			if left := h.GetMaxHold(); left.AsDuration() != want || (left == nil) != (want == 0) {
				t.Errorf("%s: what is left was told as %v, want %v", h.GetHold().GetName(), left.AsDuration(), want)
			}
		}
		<-l.Lost()
		if held := time.Since(begun); held != 2*time.Minute || len(holds) != 2 {
			t.Errorf("lost after %v, with %d holds resumed; want 2m0s and 2", held, len(holds))
		}
		lost, is := errors.AsType[*client.LostError](l.Err())
		if !is || lost.Reason != client.LostExpired || !lost.MaxHold {
			t.Errorf("got %v, want it expired by MaxHold", l.Err())
		}
		if got, want := l.Err().Error(), `the lock was lost: "n": expired: held for the time of MaxHold`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		synctest.Wait()
		if names := f.names(); len(names) != 1 || names[0] != "other" || other.Err() != nil {
			t.Errorf("held are %q, the other lock: %v", names, other.Err())
		}
	})
}

// The server tells several times of a lock that it lasts until the end of its MaxHold, by messages that were on their
// way for different times: each estimates the same moment, and the first one told it.
func TestMaxHoldEndsALockHoweverLateItWasTold(t *testing.T) {
	for how, told := range map[string]func(t *testing.T, f *fake, c *client.Client, l *client.Lock){
		"extended": func(t *testing.T, _ *fake, _ *client.Client, l *client.Lock) {
			harness.Must(t, l.MakeFixed(t.Context(), time.Hour))
		},
		"nested": func(t *testing.T, _ *fake, c *client.Client, _ *client.Lock) {
			mustLock(t, c, "n", client.Holder("h"))
		},
		"resumed": func(_ *testing.T, f *fake, _ *client.Client, _ *client.Lock) { f.stream(0).stop <- errCut },
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
				f.valid = time.Second
				c, begun := f.dial(t), time.Now()
				l := mustLock(t, c, "n", client.MaxHold(time.Minute), client.Holder("h"))
				time.Sleep(9 * time.Second)
				f.mu.Lock()
				f.lasts = 48 * time.Second // three less than it is
				f.mu.Unlock()
				told(t, f, c, l)
				<-l.Lost()
				lost, is := errors.AsType[*client.LostError](l.Err())
				if held := time.Since(begun); held != time.Minute || !is || !lost.MaxHold {
					t.Errorf("lost after %v by %v, want it lost by MaxHold after a minute", held, l.Err())
				}
			})
		})
	}
}

// A lock whose lease was not renewed is lost for that reason, also shortly before it would be lost by MaxHold.
func TestALeaseThatEndsJustBeforeMaxHold(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c, begun := f.dial(t), time.Now()
		l := mustLock(t, c, "n", client.MaxHold(30*time.Second+50*time.Millisecond))
		f.setHook(func(_ *fakeStream, r *lockdv1.SessionRequest) bool {
			return r.GetHeartbeat() != nil || r.GetOpen() != nil
		})
		<-l.Lost()
		lost, is := errors.AsType[*client.LostError](l.Err())
		if held := time.Since(begun); held != 30*time.Second || !is || lost.MaxHold || lost.Reason != client.LostDeadline {
			t.Errorf("lost after %v by %v, want its deadline to have passed after 30 s", held, l.Err())
		}
	})
}

// What the server says of the loss is told, too: it may hear of it first.
func TestALossByMaxHoldThatTheServerTells(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		hold := &lockdv1.Hold{Name: "n", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Fence: l.Fence()}
		f.mu.Lock()
		hold.Holder = f.held["n"].holder
		f.mu.Unlock()
		f.stream(0).send(0, &lockdv1.Lost{
			Hold: hold, Reason: lockdv1.Lost_REASON_EXPIRED, Cause: lockdv1.Lost_CAUSE_MAX_HOLD,
		})
		<-l.Lost()
		if lost, is := errors.AsType[*client.LostError](l.Err()); !is || !lost.MaxHold {
			t.Errorf("got %v, want it lost by MaxHold", l.Err())
		}
	})
}

// A server that would ignore MaxHold is not asked.
func TestMaxHoldOfAServerThatDoesNotKnowIt(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		f.old = true
		c := f.dial(t)
		_, err := c.Lock(t.Context(), "n", client.MaxHold(time.Minute))
		wantError(t, err, client.ErrUnsupported)
		if names := f.names(); len(names) > 0 {
			t.Errorf("held are %q", names)
		}
	})
}

// OnQueued is told positions, OnHeld who is in the way, and neither what only the other one wants.
func TestWhoIsInTheWayIsTold(t *testing.T) {
	bubble(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		held := mustLock(t, c, "n")
		f.setHook(func(s *fakeStream, r *lockdv1.SessionRequest) bool {
			if r.GetAcquire().GetTellHolder() {
				for _, q := range []*lockdv1.Queued{
					{Position: 1, HeldBy: "s:#1"}, {Position: 1, HeldBy: "s:#1", Client: "nightly"}, {Position: 0},
				} {
					s.send(r.GetRequestId(), q)
				}
			}
			return false
		})
		var positions []int
		var holders []string
		granted := make(chan *client.Lock)
		go func() {
			granted <- mustLock(t, c, "n", client.OnQueued(func(at int) { positions = append(positions, at) }),
				client.OnHeld(func(by *client.HeldError) { holders = append(holders, by.Who()) }))
		}()
		time.Sleep(time.Second)
		if err := held.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		<-granted
		if len(positions) != 2 || positions[0] != 1 || positions[1] != 0 {
			t.Errorf("told positions %v, want 1 and 0", positions)
		}
		if len(holders) != 2 || holders[0] != "s:#1" || holders[1] != "nightly" {
			t.Errorf("told holders %q", holders)
		}
	})
}
