package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// mostHeld is a max_hold that ends long before a session does.
const mostHeld = 4 * time.Second

// A client that hangs, but whose heartbeats go on, loses its lock by max_hold: it is told so, not before its time, and
// the next one has the lock. It neither releases it nor heeds what it is told.
func TestAHolderThatHangsLosesItsLockByMaxHold(t *testing.T) {
	onEachStore(t, func(t *testing.T, masters []*redistest.Server) {
		ds := startReplicas(t, masters, 2)
		stream, err := lockdv1.NewSessionServiceClient(ds[0].Connect(t)).Session(t.Context())
		harness.Must(t, err)
		answers := make(chan *lockdv1.SessionResponse, 1000)
		go func() {
			for m, err := stream.Recv(); err == nil; m, err = stream.Recv() {
				answers <- m
			}
		}()
		begun := time.Now()
		for _, m := range []*lockdv1.SessionRequest{
			{Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{ClientName: "hung"}}},
			{RequestId: 1, Message: &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{
				Name: "job", MaxHold: durationpb.New(mostHeld),
			}}},
		} {
			harness.Must(t, stream.Send(m))
		}
		next := make(chan *client.Lock, 1)
		var granted *lockdv1.Granted
		var lost *lockdv1.Lost
		late := time.After(time.Minute)
		for beat := uint64(1); lost == nil; beat++ {
			select {
			case m := <-answers:
				if g := m.GetGranted(); g != nil {
					granted = g
					go func() {
						l, err := ds[1].Dial(t).Lock(context.WithoutCancel(t.Context()), "job", client.Wait(time.Minute))
						if err != nil {
							t.Error(err)
						}
						next <- l
					}()
				}
				lost = m.GetLost()
			case <-late:
				t.Fatal("it is not lost")
			case <-time.After(100 * time.Millisecond):
				harness.Must(t, stream.Send(&lockdv1.SessionRequest{
					Message: &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{SentId: beat}},
				}))
			}
		}
		if lost.GetReason() != lockdv1.Lost_REASON_EXPIRED || lost.GetCause() != lockdv1.Lost_CAUSE_MAX_HOLD {
			t.Errorf("got %v, want it expired by max_hold", lost)
		}
		told := granted.GetMaxHold().AsDuration()
		if held := time.Since(begun); held < told || told > mostHeld {
			t.Errorf("lost after %v, and it was told %v", held, told)
		}
		if l := harness.Soon(t, "the next one has the lock", next); l != nil {
			mustUnlock(t, l)
		}
	})
}

// The SDK ends the lock by itself, also at another replica than the one that granted it, and tells why. Then it is
// free.
func TestMaxHoldGoesOnAtAnotherReplica(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	told := make(statuses, 100)
	c := harness.Dial(t, a.Addr+","+b.Addr, told.option())
	begun := time.Now()
	l, stays := mustLock(t, c, "job", client.MaxHold(mostHeld)), mustLock(t, c, "stays")
	told.await(t, client.Connected)
	a.Kill()
	told.await(t, client.Connected)
	harness.Soon(t, "it is lost", l.Lost())
	lost, is := errors.AsType[*client.LostError](l.Err())
	if !is || lost.Reason != client.LostExpired || !lost.MaxHold {
		t.Errorf("got %v, want it expired by MaxHold", l.Err())
	}
	if held := time.Since(begun); held < mostHeld-mostHeld/100-2*time.Millisecond {
		t.Errorf("lost after %v, want %v", held, mostHeld)
	}
	mustUnlock(t, mustLock(t, b.Dial(t), "job", client.Wait(time.Minute)))
	mustUnlock(t, stays)
}

// A max_hold that is longer than the session TTL is reached, also by a client that has no other lock.
func TestMaxHoldIsReachedByItsOnlyLock(t *testing.T) {
	t.Parallel()
	const most = 9 * time.Second
	c := harness.StartLockdOn(t, lockdBin, "LOCKD_STORE_KIND=memory").Dial(t, client.WithSessionTTL(shortly))
	begun := time.Now()
	l := mustLock(t, c, "job", client.MaxHold(most))
	harness.Soon(t, "it is lost", l.Lost())
	lost, is := errors.AsType[*client.LostError](l.Err())
	if held := time.Since(begun); !is || !lost.MaxHold || held < most-most/100-2*time.Millisecond {
		t.Errorf("after %v: %v, want it held for %v", held, l.Err(), most)
	}
}

// Who waits at one replica is told who holds the lock at another one.
func TestWhoWaitsIsToldWhoHoldsTheLockElsewhere(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	l := mustLock(t, a.Dial(t, client.WithName("nightly")), "job", client.Annotation("back up"))
	by, next := make(chan *client.HeldError, 100), make(chan *client.Lock, 1)
	waiter := b.Dial(t)
	go func() {
		l, err := waiter.Lock(context.WithoutCancel(t.Context()), "job", client.OnHeld(func(e *client.HeldError) { by <- e }))
		if err != nil {
			t.Error(err)
		}
		next <- l
	}()
	for e := harness.Soon(t, "it is told", by); ; e = harness.Soon(t, "it is told", by) {
		if e.Client == "" { // b does not know yet
			continue
		}
		if e.Client != "nightly" || e.Annotation != "back up" || e.Peer == "" || e.HeldFor <= 0 || e.HeldBy == "" {
			t.Errorf("got %+v", e)
		}
		break
	}
	mustUnlock(t, l)
	if l := harness.Soon(t, "it has the lock", next); l != nil {
		mustUnlock(t, l)
	}
}
