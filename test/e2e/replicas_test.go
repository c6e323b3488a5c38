package e2e

import (
	"syscall"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
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
	t.Parallel()
	_, a, b := twoReplicas(t)
	changes := tier.Pick(320, 3200)
	var lockers []locker
	for range 8 {
		lockers = append(lockers, lockerOf(a.Dial(t), "job"), lockerOf(b.Dial(t), "job"))
	}
	l := newLedger(t)
	l.work(t, changes, lockers...)
	if err := l.verdict(changes); err != nil {
		t.Error(err)
	}
}

// Nothing but the message of the release wakes the waiter while the test has patience: the lease lasts for longer.
func TestAReleaseWakesAWaiterOfAnotherReplica(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	ca, cb := a.Dial(t, client.WithSessionTTL(time.Minute)), b.Dial(t)
	for range tier.Pick(5, 100) {
		l := mustLock(t, ca, "job")
		granted := make(chan *client.Lock, 1)
		go func() { granted <- mustLock(t, cb, "job") }()
		harness.Until(t, "somebody waits", func() bool { return b.Metric("lockd_waiters") == 1 })
		mustUnlock(t, l)
		next := harness.Soon(t, "the waiter is granted", granted)
		if next.Fence() <= l.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), l.Fence())
		}
		mustUnlock(t, next)
	}
}

func TestForceThroughOneReplicaIsToldByTheOther(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	l := mustLock(t, a.Dial(t, client.WithSessionTTL(time.Minute)), "job") // no renewal comes to find out
	res, err := lockdv1.NewAdminServiceClient(b.Operate(t)).ForceRelease(t.Context(),
		&lockdv1.ForceReleaseRequest{Name: "job"})
	if err != nil || !res.GetReleased() {
		t.Fatalf("got %v, %v", res, err)
	}
	harness.Soon(t, "the holder hears of it", l.Lost())
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
		granted := make(chan struct{})
		go func() {
			if l := mustLock(t, waiting, "a"); l.Fence() <= la.Fence() {
				t.Errorf("fence %d after %d", l.Fence(), la.Fence())
			}
			close(granted)
		}()
		harness.Until(t, "somebody waits", func() bool { return b.Metric("lockd_waiters") == 1 })
		time.Sleep(shortly / 2)
		a.Signal(syscall.SIGKILL)
		harness.Soon(t, "the waiter is granted", granted)
		wantLost(t, la, client.LostDeadline) // it knows no other address
		if s := st.look("b"); lb.Err() != nil || s.owner() == "" {
			t.Errorf("the other replica's lock: %v, in the store %v", lb.Err(), s.fields)
		}
		mustUnlock(t, lb)
	})
}
