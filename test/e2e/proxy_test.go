package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
	length := tier.Pick(2*time.Second, 6*time.Second)
	rs := redistest.Start(t)
	rc := rs.Client()
	proxy := redistest.StartProxy(t, rs.Addr)
	d := startLockd(t, proxy.Addr, "LOCKD_SESSION_TTL="+shortly.String(), "LOCKD_REDIS_OP_TIMEOUT=200ms")
	rooms := make([]room, names)
	end := time.Now().Add(length)
	var wg sync.WaitGroup
	var failed atomic.Int64
	for i := range 16 {
		c, r, name := d.Dial(t), &rooms[i%names], fmt.Sprint("job ", i%names)
		var opts []client.LockOption
		if i%3 == 0 { // who gives up while an attempt for it may be under way
			opts = []client.LockOption{client.Wait(time.Duration(i+1) * time.Millisecond)}
		}
		wg.Go(func() {
			for time.Now().Before(end) {
				if err := pass(t, c, name, r, opts...); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	losses := loseReplies(t, proxy, end)
	proxy.Set(redistest.Pass)
	wg.Wait() // all finish
	visits := int64(0)
	for i := range rooms {
		visits += rooms[i].visits.Load()
		if err := rooms[i].verdict(); err != nil {
			t.Errorf("job %d: %v", i, err)
		}
	}
	lost := d.Metric(`lockd_redis_errors_total{kind="outcome_unknown"}`)
	t.Logf("%d losses, %d holds, %v scripts without an answer, %d errors told to clients", losses, visits, lost,
		failed.Load())
	if visits < 10 || lost < 1 {
		t.Error("too little happened for this test to mean anything")
	}
	harness.Until(t, "no lock is left", func() bool { return len(keys(t, rc)) == 0 })
	for i := range names { // and all can be had, once lockd knows that Redis is back
		c := d.Dial(t)
		harness.Until(t, fmt.Sprint("job ", i, " can be had"), func() bool {
			l, err := c.Lock(t.Context(), fmt.Sprint("job ", i))
			if err == nil {
				err = l.Unlock(t.Context())
			}
			if err != nil && !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOutcomeUnknown) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
}

// pass locks, visits and unlocks. Its error is that something is not known, or lost.
func pass(t *testing.T, c *client.Client, name string, r *room, opts ...client.LockOption) error {
	l, err := c.Lock(t.Context(), name, opts...)
	if errors.Is(err, client.ErrTimedOut) {
		return nil
	}
	if err == nil {
		r.visit(l)
		err = l.Unlock(t.Context())
	}
	if err != nil && !errors.Is(err, client.ErrOutcomeUnknown) && !errors.Is(err, client.ErrUnavailable) &&
		!errors.Is(err, client.ErrLost) {
		t.Errorf("%v", err)
	}
	return err
}

// loseReplies makes a proxy lose replies now and then.
func loseReplies(t *testing.T, p *redistest.Proxy, end time.Time) (losses int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for ; time.Now().Before(end); losses++ {
		// A reply that is swallowed on a connection that lives on would be no fault of a network.
		if random.IntN(10) == 0 {
			p.StallOne()
			time.Sleep(upTo(500 * time.Millisecond))
			continue
		}
		p.Set(redistest.Cut)
		time.Sleep(upTo(5 * time.Millisecond))
		p.Set(redistest.Pass)
		time.Sleep(upTo(100 * time.Millisecond))
	}
	return losses
}
