package e2e

import (
	"slices"
	"syscall"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// twoReplicas runs two servers on one Redis.
func twoReplicas(t *testing.T) (rs *redistest.Server, a, b *harness.Lockd) {
	t.Helper()
	rs = redistest.Start(t)
	a = startLockd(t, rs.Addr, "LOCKD_REPLICA=a", "LOCKD_SESSION_TTL="+shortly.String())
	return rs, a, startLockd(t, rs.Addr, "LOCKD_REPLICA=b", "LOCKD_SESSION_TTL="+shortly.String())
}

func TestTwoReplicasExcludeEachOther(t *testing.T) {
	_, a, b := twoReplicas(t)
	const changes = 2000
	var lockers []locker
	for range 8 {
		lockers = append(lockers, lockerOf(a.Dial(t), "job"), lockerOf(b.Dial(t), "job"))
	}
	l := newLedger(t)
	began := time.Now()
	l.work(t, changes, lockers...)
	t.Logf("%d changes in %v", changes, time.Since(began))
	if err := l.verdict(changes); err != nil {
		t.Error(err)
	}
}

func TestAReleaseWakesAWaiterOfAnotherReplica(t *testing.T) {
	rs, a, b := twoReplicas(t)
	ca, cb := a.Dial(t), b.Dial(t)
	others := harness.LoadOn(t, rs.Client(), a, b)
	took := make([]time.Duration, 100)
	for i := range took {
		l := mustLock(t, ca, "job")
		granted := make(chan *client.Lock, 1)
		go func() { granted <- mustLock(t, cb, "job") }()
		harness.Until(t, "somebody waits", func() bool { return b.Metric("lockd_waiters") == 1 })
		others.Begin()
		began := time.Now()
		mustUnlock(t, l)
		next := harness.Soon(t, "the waiter is granted", granted)
		took[i] = time.Since(began)
		if own := others.Off(took[i]); own > 100*time.Millisecond {
			t.Fatalf("waiter %d was woken after %v, %v of them our own; want 100ms at most", i, took[i], own)
		}
		if next.Fence() <= l.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), l.Fence())
		}
		mustUnlock(t, next)
	}
	slices.Sort(took)
	t.Logf("from the release to the grant: median %v, longest %v", took[50], took[99])
}

func TestForceThroughOneReplicaIsToldByTheOther(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	l := mustLock(t, a.Dial(t, client.WithSessionTTL(time.Minute)), "job") // no renewal comes to find out
	others := harness.LoadOn(t, rs.Client(), a, b)
	began := time.Now()
	res, err := lockdv1.NewAdminServiceClient(b.Operate(t)).ForceRelease(t.Context(),
		&lockdv1.ForceReleaseRequest{Name: "job"})
	if err != nil || !res.GetReleased() {
		t.Fatalf("got %v, %v", res, err)
	}
	harness.Soon(t, "the holder hears of it", l.Lost())
	took := time.Since(began)
	t.Logf("told after %v", took)
	if own := others.Off(took); own > time.Second {
		t.Errorf("told after %v, %v of them our own; want a second at most", took, own)
	}
	wantLost(t, l, client.LostForced)
}

func TestAKilledReplicaTakesOnlyItsOwnLocksAlong(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		st := kind.start(t)
		ds := st.replicas(2)
		a, b := ds[0], ds[1]
		onA, onB, waiting := a.Dial(t), b.Dial(t), b.Dial(t)
		la, lb := mustLock(t, onA, "a"), mustLock(t, onB, "b")
		granted := make(chan time.Time, 1)
		go func() {
			if l := mustLock(t, waiting, "a"); l.Fence() <= la.Fence() {
				t.Errorf("fence %d after %d", l.Fence(), la.Fence())
			}
			granted <- time.Now()
		}()
		harness.Until(t, "somebody waits", func() bool { return b.Metric("lockd_waiters") == 1 })
		time.Sleep(shortly / 2)
		others := harness.LoadOn(t, st.clients[0], b)
		began := time.Now()
		a.Signal(syscall.SIGKILL)
		got := harness.Soon(t, "the waiter is granted", granted)
		t.Logf("granted %v after the kill", got.Sub(began))
		if others.Off(got.Sub(began)) > shortly+time.Second {
			t.Errorf("the lock was free %v after the kill, want %v at most", got.Sub(began), shortly+time.Second)
		}
		wantLost(t, la, client.LostDeadline) // it knows no other address
		if s := st.look("b"); lb.Err() != nil || s.owner() == "" {
			t.Errorf("the other replica's lock: %v, in the store %v", lb.Err(), s.fields)
		}
		mustUnlock(t, lb)
	})
}
