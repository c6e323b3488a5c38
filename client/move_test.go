package client_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// The replica that was left carries out a release just after the new one has seen the hold. That the new one does not
// find it any more then is what was asked for.
func TestAnUnlockThatIsDoneBehindTheMoveIsDone(t *testing.T) {
	for _, reason := range []string{"LOCK_NOT_HELD", "FENCE_STALE"} {
		kept(t, 30*time.Second, func(t *testing.T, f *fake) {
			c := f.dial(t)
			l := mustLock(t, c, "n")
			var releases atomic.Int64
			f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
				switch {
				case r.GetRelease() == nil:
					return false
				case releases.Add(1) == 1:
					s.end(errCut)
				default:
					s.send(r.GetRequestId(), failure(codes.FailedPrecondition, reason))
				}
				return true
			})
			if err := l.Unlock(t.Context()); err != nil || releases.Load() != 2 {
				t.Errorf("%s: %v after %d releases", reason, err, releases.Load())
			}
			m := mustLock(t, c, "m") // asked once, it is a failure
			wantError(t, m.Unlock(t.Context()),
				map[string]error{"LOCK_NOT_HELD": client.ErrNotHeld, "FENCE_STALE": client.ErrStale}[reason])
		})
	}
}

// A session in which nothing lives at the moment moves like others: the next call finds it in its new stream.
func TestAnIdleSessionOfADrainingReplicaMoves(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dialAt(t, both, client.WithOnStatus(seen.add))
		if err := mustLock(t, c, "n").Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.session(0).send(0, &lockdv1.Draining{ReconnectWithin: durationpb.New(time.Minute)})
		synctest.Wait()
		mustLock(t, c, "n")
		if f.opens() != 2 || f.session(1).open.GetResume() == nil || seen.had(client.Disconnected) {
			t.Errorf("%d streams, told %+v", f.opens(), seen.states())
		}
	})
}

// A server does not wait for a session that nobody else takes once nothing lives in it any more.
func TestAnIdleSessionIsEndedIfNoOtherReplicaTakesIt(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dialAt(t, both)
		l := mustLock(t, c, "n")
		old := f.session(0)
		f.setDown(addrA, true)
		f.setDown(addrB, true)
		old.send(0, &lockdv1.Draining{ReconnectWithin: durationpb.New(time.Minute)})
		time.Sleep(10 * time.Second)
		if err := old.stream.Context().Err(); err != nil {
			t.Fatalf("it has left with a lock held: %v", err)
		}
		if err := l.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := old.stream.Context().Err(); err == nil {
			t.Error("the draining stream is still there")
		}
	})
}

// Clients that leave a replica together spread over the others.
func TestThoseWhoLeaveAReplicaSpread(t *testing.T) {
	const addrs = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		first := map[string]int{}
		for i := range 40 {
			c := f.dialAt(t, addrs)
			mustLock(t, c, fmt.Sprint("n", i))
			before := len(f.dials())
			f.session(f.opens()-1).send(0, &lockdv1.Draining{ReconnectWithin: durationpb.New(time.Minute)})
			synctest.Wait()
			first[f.dials()[before]]++
		}
		if len(first) != 2 || first["127.0.0.1:1"] > 0 {
			t.Errorf("they went to %v", first)
		}
	})
}

// A replica that stands still, or is cut off from its client, is left while all leases are valid: one heartbeat was not
// answered for a while.
func TestASilentReplicaIsLeftInTime(t *testing.T) {
	const ttl = 30 * time.Second
	kept(t, ttl, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dialAt(t, both, client.WithOnStatus(seen.add))
		l := mustLock(t, c, "n")
		time.Sleep(4 * ttl)
		if seen.had(client.Interrupted) {
			t.Fatalf("told %+v while the server answered", seen.states())
		}
		old := f.session(0)
		f.setHook(func(s *fakeSession, _ *lockdv1.SessionRequest) bool { return s == old })
		begun := time.Now()
		for f.opens() == 1 {
			time.Sleep(time.Second)
		}
		if took := time.Since(begun); took > ttl/2 {
			t.Errorf("left after %v", took)
		}
		time.Sleep(4 * ttl)
		if err := l.Err(); err != nil || old.stream.Context().Err() == nil || seen.had(client.Disconnected) ||
			f.opens() != 2 {
			t.Errorf("the lock: %v; %d streams; told %+v", err, f.opens(), seen.states())
		}
	})
}

// While no other replica takes the session it stays, and goes on if the silent one is heard again.
func TestASilentReplicaThatIsHeardAgainIsKept(t *testing.T) {
	const ttl = 30 * time.Second
	kept(t, ttl, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dialAt(t, both, client.WithOnStatus(seen.add))
		l := mustLock(t, c, "n")
		f.setDown(addrA, true)
		f.setDown(addrB, true)
		var s silence
		f.setHook(s.hook)
		time.Sleep(ttl / 2)
		s.end()
		time.Sleep(time.Minute)
		want := []client.State{client.Connected, client.Interrupted, client.Connected}
		got := seen.states()
		if err := l.Err(); err != nil || f.opens() != 1 || !slices.Equal(got, want) {
			t.Errorf("the lock: %v; %d streams; told %v, want %v", err, f.opens(), got, want)
		}
		f.setDown(addrB, false)
		time.Sleep(time.Minute)
		if f.opens() != 1 {
			t.Error("left although it is heard")
		}
	})
}

func (s *statuses) states() (all []client.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.seen {
		all = append(all, st.State)
	}
	return all
}
