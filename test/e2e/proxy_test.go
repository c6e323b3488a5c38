package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// Replies of Redis get lost at random: what was asked for was done, but nobody knows.
func TestLostRepliesNeverMakeTwoHoldersNorOrphans(t *testing.T) {
	t.Parallel()
	const names = 8
	rs := redistest.Start(t)
	proxy := redistest.StartProxy(t, rs.Addr)
	d := startLockd(t, []string{proxy.Addr}, soonOver, "LOCKD_REDIS_OP_TIMEOUT=200ms")
	var l ledger
	for i := range names {
		l.name(fmt.Sprint("job ", i), client.Exclusive, false)
	}
	var visits atomic.Int64
	end := time.Now().Add(tier.Pick(2*time.Second, 6*time.Second))
	var all sync.WaitGroup
	for i := range 2 * names {
		c, name := d.Dial(t), fmt.Sprint("job ", i%names)
		var opts []client.LockOption
		if i%3 == 0 { // who gives up while an attempt for it may be under way
			opts = []client.LockOption{client.Wait(time.Duration(i+1) * time.Millisecond)}
		}
		all.Go(func() {
			for time.Now().Before(end) {
				k, err := c.Lock(t.Context(), name, opts...)
				if err == nil {
					visits.Add(1)
					if wrong := l.granted(name, client.Exclusive, 0, k); wrong != nil {
						t.Error(wrong)
					}
					time.Sleep(200 * time.Microsecond) // so that others can be met
					l.leaves(name, k)
					err = k.Unlock(t.Context())
				}
				if !excused(err) && !errors.Is(err, client.ErrTimedOut) && !errors.Is(err, client.ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	loseReplies(proxy, end)
	all.Wait() // all finish
	total := visits.Load()
	if lost := d.Metric(`lockd_redis_errors_total{kind="outcome_unknown"}`); total < 10 || lost < 1 {
		t.Errorf("%d visits and %v unknown outcomes are too few for this test to mean anything", total, lost)
	}
	harness.Until(t, "no lock is left", func() bool { return len(keys(t, rs.Client())) == 0 })
	c := d.Dial(t)
	for i := range names { // and all can be had, once lockd knows that Redis is back
		awaitGrant(t, c, fmt.Sprint("job ", i))
	}
}

// excused says whether an error is none, or says that the store is away or nothing is known.
func excused(err error) bool {
	return err == nil || errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown)
}

// whenBack repeats what the store cannot do yet, and returns what it says when it can.
func whenBack(t *testing.T, what string, do func() error) (err error) {
	t.Helper()
	harness.Until(t, what, func() bool { err = do(); return err == nil || !excused(err) })
	return err
}

// awaitGrant waits until a name is granted after an outage, and returns its fence. A grant may be lost in it.
func awaitGrant(t *testing.T, c *client.Client, name string, opts ...client.LockOption) (fence uint64) {
	t.Helper()
	opts = append(slices.Clone(opts), client.Wait(time.Second))
	harness.Until(t, name+" is granted", func() bool {
		err := whenBack(t, name+" is asked for", func() error {
			l, err := c.Lock(t.Context(), name, opts...)
			if err == nil {
				fence, err = l.Fence(), l.Unlock(t.Context())
			}
			return err
		})
		return err == nil
	})
	return fence
}

// loseReplies makes a proxy lose replies now and then.
func loseReplies(p *redistest.Proxy, end time.Time) {
	for ; time.Now().Before(end); time.Sleep(rand.N(100 * time.Millisecond)) {
		// A reply that is swallowed on a connection that lives on would be no fault of a network.
		if rand.IntN(10) == 0 {
			p.StallOne()
			time.Sleep(rand.N(500 * time.Millisecond))
			continue
		}
		p.Set(redistest.Cut)
		time.Sleep(rand.N(5 * time.Millisecond))
		p.Set(redistest.Pass)
	}
}
