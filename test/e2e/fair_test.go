package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// replicas runs some servers on one Redis.
func replicas(t *testing.T, n int) (rs *redistest.Server, ds []*harness.Lockd) {
	t.Helper()
	rs = redistest.Start(t)
	for i := range n {
		ds = append(ds, startLockd(t, rs.Addr, fmt.Sprintf("LOCKD_REPLICA=%c", 'a'+i)))
	}
	return rs, ds
}

// A waiter that comes alone costs one script, and a grant that goes from one replica to another costs two: a release
// and an attempt. Half of these come alone, each on another replica. All others come at once, which costs a fraction,
// and those of one replica hand the lock to each other by their releases. Meanwhile all places are kept.
func TestFairWaitersOfThreeReplicasAreGrantedInTheirOrder(t *testing.T) {
	t.Parallel()
	each := tier.Pick(150, 5000)
	rs, ds := replicas(t, 3)
	l := newLine(t, rs.Client(), 2, 30*time.Second, ds...)
	calls := rs.ScriptCalls()
	l.arriveAlone(each)
	l.arriveTogether(each)
	l.start(nobody)
	turns := l.finish(l.waiters)
	if scripts := float64(rs.ScriptCalls()-calls) / float64(len(turns)); scripts > 3 {
		t.Errorf("%.2f scripts for each grant, want 3 at most", scripts)
	}
}

// nobody keeps the lock.
func nobody(turn) bool { return false }

// One of three replicas is killed when a third had their turns: while one of its own waiters holds the lock, or just
// before it is told that it is next. Everybody else is granted in order.
func TestAKilledReplicaCostsItsFairWaitersOnly(t *testing.T) {
	t.Parallel()
	for what, holding := range map[string]bool{"holds": true, "is next": false} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			killMidway(t, tier.Pick(100, 5000), holding)
		})
	}
}

func killMidway(t *testing.T, each int, holding bool) {
	const victim = 2
	rs, ds := replicas(t, 3)
	l := newLine(t, rs.Client(), 2, shortly, ds...)
	l.arriveAlone(each)
	l.arriveTogether(each)
	l.arriveAlone(victim) // the last is not of the victim: those who follow the dead clear them away

	killed := false
	survived := len(l.waiters) // those before had their turns by then, whoever they are
	l.start(func(g turn) bool {
		n := len(l.turns) - 1 // with this one
		if killed || n < len(l.waiters)/3 {
			return false
		}
		next := l.waiters[n].c.replica
		if holding && g.c.replica != victim || !holding && (g.c.replica == victim || next != victim) {
			return false
		}
		ds[victim].Kill()
		killed, survived = true, n
		return holding
	})
	harness.Within(t, time.Minute, "a third had their turns, and the replica is killed",
		func() bool { return gone(ds[victim].PID()) })
	l.mu.Lock()
	want := slices.Clone(l.waiters)
	want = append(want[:survived:survived],
		slices.DeleteFunc(want[survived:], func(w ticket) bool { return w.c.replica == victim })...)
	l.mu.Unlock()

	l.finish(want) // fails if nobody has a turn for long
	l.onlyLost(victim)
	for i, d := range ds {
		if i != victim && d.Metric("lockd_waiters") != 0 {
			t.Errorf("replica %d has waiters", i)
		}
	}
}

// Those who leave are taken out of the middle of the line, many at a time.
func TestFairWaitersOfALostClientDelayNobody(t *testing.T) {
	t.Parallel()
	rs, ds := replicas(t, 2)
	rc := rs.Client()
	l := newLine(t, rc, 2, 30*time.Second, ds...)
	l.arriveAlone(tier.Pick(20, 200))
	l.arriveTogether(tier.Pick(400, 4000))
	leaver := l.clients[1]
	want := slices.DeleteFunc(slices.Clone(l.waiters), func(w ticket) bool { return w.c == leaver })
	leaver.cancel()
	harness.Until(t, "they have left the queue", func() bool {
		return rc.LLen(t.Context(), "redisson_lock_queue:{"+lineName+"}").Val() == int64(len(want))
	})
	l.start(nobody)
	l.finish(want)
}
