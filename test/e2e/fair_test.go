package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// deadPlace is how long a fair waiter's place may outlive its replica.
const deadPlace = 6 * time.Second

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
func TestTenThousandFairWaitersOfThreeReplicasAreGrantedInTheirOrder(t *testing.T) {
	const alone, together = 5000, 5000
	rs, ds := replicas(t, 3)
	rc := rs.Client()
	line := func(t *testing.T, alone, together int) {
		l := newLine(t, rc, 2, 30*time.Second, ds...)
		calls, began := rs.ScriptCalls(), time.Now()
		l.arriveAlone(alone)
		l.arriveTogether(together)
		arrived, took := rs.ScriptCalls(), time.Since(began)
		began = time.Now()
		l.start(nobody)
		turns := l.finish(l.waiters)
		wait, _ := longestWait(turns)
		t.Logf("%d came in %v by %d scripts, and were granted in %v by %d; %v at most between two",
			len(turns), took, arrived-calls, turns[len(turns)-1].at.Sub(began), rs.ScriptCalls()-arrived, wait)
		each := float64(rs.ScriptCalls()-calls) / float64(len(turns))
		t.Logf("%.2f scripts for each grant", each)
		if each > 3 {
			t.Errorf("%.2f scripts for each grant, want 3 at most", each)
		}
	}
	t.Run("warm up", func(t *testing.T) { line(t, 60, 60) })
	settle(t, rc, ds...)
	before := make([]float64, len(ds))
	for i, d := range ds {
		before[i] = d.Metric("go_goroutines")
	}

	t.Run("order", func(t *testing.T) { line(t, alone, together) }) // its connections are closed at its end

	settle(t, rc, ds...)
	for i, d := range ds {
		harness.Until(t, "the goroutines are back", func() bool { return d.Metric("go_goroutines") <= before[i] })
	}
	harness.Until(t, "nobody listens any more", func() bool { return rc.PubSubNumPat(t.Context()).Val() == 0 })
}

// nobody keeps the lock.
func nobody(turn) bool { return false }

func TestKilledReplicaCostsItsFairWaitersOnly(t *testing.T) {
	killMidway(t, 5000, 5000, true, shortly+deadPlace)
}

func TestKilledReplicaThatHoldsNothingCostsItsFairWaitersOnly(t *testing.T) {
	killMidway(t, 3000, 1000, false, deadPlace+3*time.Second)
}

// killMidway kills one of three replicas when a third had their turns: while one of its own waiters holds the lock, or
// just before it is told that it is next. Everybody else is granted in order, after a pause of stall at most.
func killMidway(t *testing.T, alone, together int, holding bool, stall time.Duration) {
	const victim = 2
	rs, ds := replicas(t, 3)
	rc := rs.Client()
	others := harness.LoadOn(t, rc, ds...)
	l := newLine(t, rc, 2, shortly, ds...)
	l.arriveAlone(alone)
	l.arriveTogether(together)
	l.arriveAlone(victim) // the last is not of the victim: those who follow the dead clear them away

	var killed time.Time
	survived := len(l.waiters) // those before had their turns by then, whoever they are
	l.start(func(g turn) bool {
		n := len(l.turns) - 1 // with this one
		if !killed.IsZero() || n < len(l.waiters)/3 {
			return false
		}
		next := l.waiters[n].c.replica
		if holding && g.c.replica != victim || !holding && (g.c.replica == victim || next != victim) {
			return false
		}
		ds[victim].Kill()
		killed, survived = time.Now(), n
		return holding
	})
	harness.Within(t, time.Minute, "a third had their turns, and the replica is killed",
		func() bool { return gone(ds[victim].PID()) })
	others.Begin()
	l.mu.Lock()
	want := slices.Clone(l.waiters)
	want = append(want[:survived:survived],
		slices.DeleteFunc(want[survived:], func(w ticket) bool { return w.c.replica == victim })...)
	l.mu.Unlock()

	turns := l.finish(want)
	l.onlyLost(victim)
	for i, d := range ds {
		if i != victim && d.Metric("lockd_waiters") != 0 {
			t.Errorf("replica %d has waiters", i)
		}
	}
	wait := waits(turns[survived-1:])
	t.Logf("killed after %d turns; then nobody had a turn for %v; %d turns of others in %v",
		survived, wait, len(turns)-survived, turns[len(turns)-1].at.Sub(killed))
	if own := others.Off(wait); own > stall {
		t.Errorf("nobody had a turn for %v, %v of them our own; want %v at most", wait, own, stall)
	}
}

// Those who leave are taken out of the middle of the line, many at a time.
func TestFairWaitersOfALostClientDelayNobody(t *testing.T) {
	rs, ds := replicas(t, 2)
	rc := rs.Client()
	others := harness.LoadOn(t, rc, ds...)
	l := newLine(t, rc, 2, 30*time.Second, ds...)
	l.arriveAlone(200)
	l.arriveTogether(4000)
	leaver := l.clients[1]
	want := slices.DeleteFunc(slices.Clone(l.waiters), func(w ticket) bool { return w.c == leaver })

	others.Begin()
	began := time.Now()
	leaver.cancel()
	harness.Until(t, "they have left the queue", func() bool {
		return rc.LLen(t.Context(), "redisson_lock_queue:{"+lineName+"}").Val() == int64(len(want))
	})
	left := time.Since(began)
	t.Logf("%d left within %v", len(l.waiters)-len(want), left)
	if own := others.Off(left); own > time.Second {
		t.Errorf("they left within %v, %v of them our own; want a second at most", left, own)
	}

	others.Begin()
	l.start(nobody)
	turns := l.finish(want)
	wait, before := longestWait(turns)
	t.Logf("%v at most between two", wait)
	if own := others.Off(wait); own > deadPlace/2 {
		t.Errorf("turn %d came after %v, %v of them our own", before, wait, own)
	}
}
