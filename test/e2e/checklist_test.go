package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// The lines of Redisson's behaviour checklist that need the real programs and a real Redis.
// docs/redisson-checklist.md says which test is for which line.

func TestAfterARestartWithoutDataUnlockIsRefusedAndTheNextLockIsRenewed(t *testing.T) {
	t.Parallel()
	rs, d := oneReplica(t, soonOver)
	c := d.Dial(t, client.WithSessionTTL(9*time.Second))
	for range 2 { // in a row
		before, after := map[string]*client.Lock{}, map[*client.Lock]time.Time{}
		for kind, opts := range kinds {
			before[kind] = mustLock(t, c, "job "+kind, opts...)
		}
		rs.RestartEmpty()
		for kind, l := range before {
			err := whenBack(t, "the release is answered", func() error { return l.Unlock(t.Context()) })
			if !errors.Is(err, client.ErrNotHeld) && !errors.Is(err, client.ErrLost) {
				t.Errorf("%s: got %v, want that it is not held", kind, err)
			}
			var next *client.Lock
			err = whenBack(t, "the next lock is granted", func() (err error) {
				next, err = c.Lock(t.Context(), l.Name(), kinds[kind]...)
				return err
			})
			if err != nil || next.Fence() <= l.Fence() {
				t.Fatalf("%s: %v, fence %d after %d", kind, err, next.Fence(), l.Fence())
			}
			after[next] = next.Deadline()
		}
		for l, end := range after {
			harness.Until(t, l.Name()+" is renewed", func() bool { return l.Deadline().After(end) || l.Err() != nil })
			mustUnlock(t, l)
		}
	}
}

func TestNothingStaysInRedisWithoutAnEnd(t *testing.T) {
	t.Parallel()
	rs, d := oneReplica(t)
	rc, c, other := rs.Client(), d.Dial(t), d.Dial(t)
	for kind, opts := range kinds {
		name := "{job} " + kind // so that no name is like another one's key
		l := mustLock(t, c, name, opts...)
		if kind == "read" {
			opts = kinds["write"] // so that the other has to wait
		}
		granted := queue(t, other, name, opts...)
		mustUnlock(t, l)
		harness.Soon(t, "the other has it", granted) // it stays
		if _, err := c.Lock(t.Context(), name, append(opts, client.Wait(50*time.Millisecond))...); err == nil {
			t.Errorf("%s: two holders", kind)
		}
	}
	all, err := rc.Keys(t.Context(), "*").Result()
	if err != nil || len(all) < 2*len(kinds) {
		t.Fatalf("got keys %q, %v", all, err)
	}
	var endless []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("without an end: ", endless)
		}
	})
	harness.Until(t, "all keys end by themselves", func() bool { // places are given up in the background
		endless = nil
		for _, key := range rc.Keys(t.Context(), "*").Val() {
			if key != "lockd:data" && rc.PTTL(t.Context(), key).Val() == -1 {
				endless = append(endless, key)
			}
		}
		return len(endless) == 0
	})
}

// place is for how long a place in a fair queue lives unless it is kept.
const place = 6 * time.Second

// However many give up, or die, the places of those behind them live for as long as always.
func TestFairDeadlinesDoNotDrift(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t, soonOver)
	rc := rs.Client()
	ca, cb := a.Dial(t), b.Dial(t)
	fair := client.As(client.Fair)
	first := mustLock(t, ca, "job", fair)
	wait := func(c *client.Client, n int) <-chan *client.Lock {
		granted := queue(t, c, "job", fair)
		harness.Until(t, fmt.Sprint(n, " wait, and who gave up is gone"), func() bool {
			waiters := rc.ZRangeWithScores(t.Context(), "redisson_lock_timeout:{job}", 0, -1).Val()
			for _, w := range waiters {
				if until := time.Until(time.UnixMilli(int64(w.Score))); until > place {
					t.Errorf("a place lives for %v, want %v at most", until, place)
				}
			}
			return len(waiters) == n
		})
		return granted
	}
	second := wait(ca, 1)
	for range 50 {
		if _, err := cb.Lock(t.Context(), "job", fair, client.Wait(20*time.Millisecond)); !errors.Is(err,
			client.ErrTimedOut) {
			t.Fatalf("got %v, want that the wait ends", err)
		}
	}
	wait(cb, 2)
	b.Signal(syscall.SIGKILL)
	last := wait(ca, 3)
	time.Sleep(place)
	mustUnlock(t, first)
	mustUnlock(t, harness.Soon(t, "the second has it", second))
	mustUnlock(t, harness.Soon(t, "the one behind the dead has it", last))
	if n := rc.Exists(t.Context(), "redisson_lock_queue:{job}", "redisson_lock_timeout:{job}").Val(); n != 0 {
		t.Errorf("%d keys of the queue are left", n)
	}
}

func TestFairTryWhileWritesArePausedEndsAndLeavesNoPlace(t *testing.T) {
	t.Parallel()
	rs, d := oneReplica(t, "LOCKD_REDIS_OP_TIMEOUT=5s")
	rc, c, fair := rs.Client(), d.Dial(t), client.As(client.Fair)
	l := mustLock(t, d.Dial(t), "job", fair)
	harness.Must(t, rc.Do(t.Context(), "client", "pause", time.Minute.Milliseconds(), "write").Err())
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	_, tried := c.TryLock(ctx, "job", fair)
	_, waited := c.Lock(ctx, "job", fair, client.Wait(time.Second))
	for _, err := range []error{tried, waited} {
		if err == nil || ctx.Err() != nil {
			t.Errorf("got %v, want an answer that it was not granted", err)
		}
	}
	harness.Must(t, rc.Do(t.Context(), "client", "unpause").Err())
	harness.Until(t, "the queue is empty", func() bool {
		return rc.Exists(t.Context(), "redisson_lock_queue:{job}").Val() == 0
	})
	mustUnlock(t, l)
	mustUnlock(t, mustLock(t, c, "job", fair))
}

// TestNobodyAsksRedisBusilyBehindADeadWaiterOfRedisson leaves what a Redisson that died leaves: a place for minutes.
func TestNobodyAsksRedisBusilyBehindADeadWaiterOfRedisson(t *testing.T) {
	t.Parallel()
	rs, d := oneReplica(t)
	const dead = "4ca0b9a6-1a2a-4a5c-a1a5-0cd2a2a4d7ee:1"
	err := errors.Join(
		rs.Client().RPush(t.Context(), "redisson_lock_queue:{job}", dead).Err(),
		rs.Client().ZAdd(t.Context(), "redisson_lock_timeout:{job}", redis.Z{
			Score: float64(time.Now().Add(5 * time.Minute).UnixMilli()), Member: dead,
		}).Err())
	harness.Must(t, err)
	calls := rs.ScriptCalls()
	var all sync.WaitGroup
	for range 10 {
		c := d.Dial(t)
		all.Go(func() { mustUnlock(t, mustLock(t, c, "job", client.As(client.Fair))) })
	}
	all.Wait()
	if n := rs.ScriptCalls() - calls; n > 100 {
		t.Errorf("ten had their turns by %d scripts", n)
	}
}
