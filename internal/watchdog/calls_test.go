package watchdog

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

func TestAFailedRenewalIsTriedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &slow{err: lock.ErrUnavailable}
		w, c, ls := crowded(t, store, 1)
		c.hearOften(w, 2) // the validity ends after 30 s
		time.Sleep(5 * time.Second)
		if tries := len(store.fail(nil)); tries < 10 {
			t.Errorf("got %d tries in the 15s after the first failure, want one per second", tries)
		}
		c.hearOften(w, 10)
		if n := lost(ls); n != 0 {
			t.Error("the lease was lost although a renewal succeeded in time")
		}
	})
}

func TestALeaseEndsAtItsValidityWhileARenewalHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, ls := crowded(t, &slow{each: time.Minute}, 1)
		begun := time.Now()
		c.hearOften(w, 6)
		if _, at := ls[0].seen(); !at.Equal(begun.Add(c.ttl)) {
			t.Errorf("ended %v after the end of its validity", at.Sub(begun.Add(c.ttl)))
		}
	})
}

// After a sign of life the renewals of many leases are spread, so that no instant has more than its share of what they
// cost; each comes within a tenth of the TTL. They share calls.
func TestRenewalsAfterASignOfLifeAreSpread(t *testing.T) {
	const cost, rounds = 10_000, 15
	for leases, like := range map[int]lock.Renewal{cost: {}, cost / 100: {Kind: lock.Semaphore, Permits: 100}} {
		synctest.Test(t, func(t *testing.T) {
			before, store, c := runtime.NumGoroutine(), &slow{}, newCrew(30*time.Second)
			w := watching(t, store)
			c.like = like
			ls := c.take(w, leases)
			if more := runtime.NumGoroutine() - before; more > 10 {
				t.Errorf("%d leases cost %d goroutines", leases, more)
			}
			time.Sleep(c.ttl/3 - time.Second)
			began := time.Now()
			c.hear(w)
			time.Sleep(c.ttl/10 + time.Millisecond)
			renewed, most := 0, map[time.Time]int{}
			for _, c := range store.fail(nil) {
				renewed += c.n
				most[c.at] += c.n
				if most[c.at] > cost/10 {
					t.Fatalf("%d and more are renewed in one instant, %v after the sign of life", most[c.at], c.at.Sub(began))
				}
			}
			if renewed < cost {
				t.Errorf("only %d of %d were renewed within a tenth of the TTL", renewed, cost)
			}
			c.hearOften(w, rounds)
			if n := lost(ls); n != 0 {
				t.Errorf("lost %d leases", n)
			}
			if n := len(store.fail(nil)); n > 2*rounds*cost/maxBatch {
				t.Errorf("%d rounds of %d leases took %d calls", rounds, leases, n)
			}
		})
	}
}
