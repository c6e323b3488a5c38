package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// The lines of Redisson's behaviour checklist that need the real programs and a real Redis.
// docs/redisson-checklist.md says which test is for which line.

// kinds are all kinds of locks, with what has to be asked for.
var kinds = map[string][]client.LockOption{
	"exclusive": nil,
	"fair":      {client.As(client.Fair)},
	"read":      {client.As(client.Read)},
	"write":     {client.As(client.Write)},
	"semaphore": {client.Permits(1, 1)},
}

// visits counts in a way that loses visits if two are there at once.
type visits struct{ n atomic.Int64 }

func (v *visits) come() {
	n := v.n.Load()
	time.Sleep(time.Millisecond)
	v.n.Store(n + 1)
}

// listening are the connections to Redis that subscribed to anything.
func listening(t *testing.T, rc *redis.Client) (n int) {
	t.Helper()
	list, err := rc.Do(t.Context(), "client", "list", "type", "pubsub").Text()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(list, "\n")
}

func TestManyJobsNeedOneListenerAndLeaveNoSubscription(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	const workers, names = 50, 5
	jobs := tier.Pick(500, 5000)
	var v [names]visits
	t.Run("work", func(t *testing.T) { // its clients leave at its end
		var wg sync.WaitGroup
		clients := []*client.Client{a.Dial(t), b.Dial(t)}
		for i := range workers {
			c, name, opts := clients[i%2], i%names, []client.LockOption(nil)
			if name == 0 {
				opts = kinds["fair"]
			}
			wg.Go(func() {
				for range jobs / workers {
					l, err := c.Lock(t.Context(), fmt.Sprint("job ", name), opts...)
					if err != nil {
						t.Error(err)
						return
					}
					v[name].come()
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for most := 0; ; {
			select {
			case <-done:
				if most != 2 {
					t.Errorf("%d connections were subscribed, want one for each replica", most)
				}
				return
			case <-time.After(20 * time.Millisecond):
				most = max(most, listening(t, rc))
			}
		}
	})
	for i := range v {
		if n := v[i].n.Load(); n != int64(jobs/names) {
			t.Errorf("%d visits are left of %d", n, jobs/names)
		}
	}
	settle(t, rc, a, b)
	harness.Until(t, "no pattern is subscribed to", func() bool {
		n, err := rc.PubSubNumPat(t.Context()).Result()
		return n == 0 && err == nil
	})
}

func TestATryWithoutRedisIsAnError(t *testing.T) {
	t.Parallel()
	for name, outage := range outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rs := redistest.Start(t)
			c := startLockd(t, rs.Addr).Dial(t)
			mustUnlock(t, mustLock(t, c, "warm up"))
			outage.begin(rs)
			var wg sync.WaitGroup
			away := func(what string, try func() error) {
				wg.Go(func() {
					if err := try(); !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOutcomeUnknown) {
						t.Errorf("%s: got %v, want that the store is away", what, err)
					}
				})
			}
			for kind, opts := range kinds {
				away(kind, func() error { _, err := c.TryLock(t.Context(), kind, opts...); return err })
			}
			away("several", func() error {
				_, err := c.TryLockAll(t.Context(), []client.Item{{Name: "a"}, {Name: "b"}})
				return err
			})
			wg.Wait()
			outage.end(rs)
			for kind, opts := range kinds {
				mustUnlock(t, mustLock(t, c, kind, opts...))
			}
		})
	}
}

func TestAfterARestartWithoutDataUnlockIsRefusedAndTheNextLockIsRenewed(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	c := startLockd(t, rs.Addr, "LOCKD_SESSION_TTL="+shortly.String()).Dial(t)
	for range 2 { // in a row
		before, after := map[string]*client.Lock{}, map[string]*client.Lock{}
		for kind, opts := range kinds {
			before[kind] = mustLock(t, c, "job "+kind, opts...)
		}
		rs.RestartEmpty()
		for kind, l := range before {
			if err := l.Unlock(t.Context()); !errors.Is(err, client.ErrNotHeld) && !errors.Is(err, client.ErrLost) {
				t.Errorf("%s: got %v, want that it is not held", kind, err)
			}
			after[kind] = mustLock(t, c, l.Name(), kinds[kind]...)
			if after[kind].Fence() <= l.Fence() {
				t.Errorf("%s: fence %d after %d", kind, after[kind].Fence(), l.Fence())
			}
		}
		time.Sleep(2 * shortly)
		for kind, l := range after {
			if err := l.Err(); err != nil {
				t.Errorf("%s: the next lock: %v", kind, err)
			}
			mustUnlock(t, l)
		}
	}
}

// TestNamesWorkInACluster has a server in cluster mode with all slots, which refuses scripts whose keys have several.
func TestNamesWorkInACluster(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t, "--cluster-enabled", "yes")
	rc := rs.Client()
	if err := rc.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "the cluster works", func() bool {
		info, err := rc.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(info, "cluster_state:ok")
	})
	for prefix, names := range map[string][]string{
		"":     {"job", "{test}:abc:key", "abc:{test}", "{test}"},
		"app:": {"job", "{test}:abc:key"},
	} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			t.Parallel()
			d := startLockd(t, rs.Addr, "LOCKD_REDIS_PREFIX="+prefix)
			c, other := d.Dial(t), d.Dial(t)
			for _, name := range names {
				for kind, opts := range kinds {
					cycles(t, c, other, name+" "+kind, opts)
				}
			}
			// Several at once need names in one slot.
			_, err := c.LockAll(t.Context(), []client.Item{
				{Name: "{test}:a"}, {Name: "{test}:b", Kind: client.Fair}, {Name: "{test}:c", Permits: 1, Limit: 1},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// cycles takes and gives back a name, many times by trying and then from one to the other.
func cycles(t *testing.T, c, other *client.Client, name string, opts []client.LockOption) {
	t.Helper()
	for range tier.Pick(3, 30) {
		l, err := c.TryLock(t.Context(), name, opts...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		mustUnlock(t, l)
	}
	if strings.HasSuffix(name, " read") {
		opts = kinds["write"] // so that the other has to wait
	}
	l := mustLock(t, c, name, opts...)
	granted, queued := make(chan *client.Lock, 1), make(chan int, 100)
	ask := append([]client.LockOption{client.OnQueued(func(n int) { queued <- n })}, opts...)
	go func() { granted <- mustLock(t, other, name, ask...) }()
	harness.Soon(t, "the other waits", queued)
	mustUnlock(t, l)
	mustUnlock(t, harness.Soon(t, "the other has it", granted))
}

func TestNothingStaysInRedisWithoutAnEnd(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	c, other := d.Dial(t), d.Dial(t)
	for kind, opts := range kinds {
		name := "{job} " + kind // so that no name is like another one's key
		cycles(t, c, other, name, opts)
		l := mustLock(t, c, name, opts...)
		if _, err := other.Lock(t.Context(), name, append(opts, client.Wait(50*time.Millisecond))...); err == nil &&
			kind != "read" {
			t.Errorf("%s: two holders", kind)
		}
		_ = l // it stays
	}
	all, err := rc.Keys(t.Context(), "*").Result()
	if err != nil || len(all) < 2*len(kinds) {
		t.Fatalf("got keys %q, %v", all, err)
	}
	harness.Until(t, "all keys end by themselves", func() bool { // places are given up in the background
		left := 0
		for _, key := range rc.Keys(t.Context(), "*").Val() {
			if key != "lockd:data" && rc.PTTL(t.Context(), key).Val() == -1 {
				left++
			}
		}
		return left == 0
	})
}

// place is for how long a place in a fair queue lives unless it is kept.
const place = 6 * time.Second

// deadlines are for how long the places in the queue of "job" would live, longest first; Redisson counts on them.
func deadlines(t *testing.T, rc *redis.Client) (all []time.Duration) {
	t.Helper()
	waiters, err := rc.ZRevRangeWithScores(t.Context(), "redisson_lock_timeout:{job}", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range waiters {
		all = append(all, time.Until(time.UnixMilli(int64(w.Score))))
	}
	return all
}

func TestFairDeadlinesDoNotDrift(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	ca, cb := a.Dial(t), b.Dial(t)
	fair := client.As(client.Fair)
	first := mustLock(t, ca, "job", fair)
	second, last := make(chan *client.Lock, 1), make(chan *client.Lock, 1)
	wait := func(c *client.Client, granted chan<- *client.Lock, n int) {
		go func() {
			if l, err := c.Lock(t.Context(), "job", fair); err == nil {
				granted <- l
			}
		}()
		harness.Until(t, fmt.Sprint(n, " wait"), func() bool { return len(deadlines(t, rc)) == n })
	}
	steady := func(n int) {
		t.Helper()
		harness.Until(t, "who gave up is gone", func() bool { return len(deadlines(t, rc)) == n })
		if d := deadlines(t, rc); d[0] > place {
			t.Errorf("got deadlines %v, want %v at most", d, place)
		}
	}
	wait(ca, second, 1)
	for range 50 {
		if _, err := cb.Lock(t.Context(), "job", fair, client.Wait(20*time.Millisecond)); !errors.Is(err,
			client.ErrTimedOut) {
			t.Fatalf("got %v, want that the wait ends", err)
		}
	}
	steady(1)
	wait(cb, make(chan *client.Lock, 1), 2) // it will be killed
	steady(2)
	b.Signal(syscall.SIGKILL)
	killed := time.Now()
	wait(ca, last, 3)
	steady(3)
	time.Sleep(time.Until(killed.Add(place)))
	mustUnlock(t, first)
	mustUnlock(t, harness.Soon(t, "the second has it", second))
	mustUnlock(t, harness.Soon(t, "the one behind the dead has it", last))
	if n := rc.Exists(t.Context(), "redisson_lock_queue:{job}", "redisson_lock_timeout:{job}").Val(); n != 0 {
		t.Errorf("%d keys of the queue are left", n)
	}
}

func TestFairTryWhileWritesArePausedEndsAndLeavesNoPlace(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t, "LOCKD_SESSION_TTL=30s")
	c := d.Dial(t)
	fair := client.As(client.Fair)
	l := mustLock(t, d.Dial(t), "job", fair)
	const pause = 5 * time.Second
	if err := rc.Do(t.Context(), "client", "pause", pause.Milliseconds(), "write").Err(); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, tried := c.TryLock(ctx, "job", fair)
	_, waited := c.Lock(ctx, "job", fair, client.Wait(time.Second))
	for _, err := range []error{tried, waited} {
		if err == nil || ctx.Err() != nil {
			t.Errorf("got %v, want an answer that it was not granted", err)
		}
	}
	t.Logf("after %v: %v; %v", time.Since(paused), tried, waited)
	time.Sleep(time.Until(paused.Add(pause)))
	harness.Until(t, "the queue is empty", func() bool {
		return rc.Exists(t.Context(), "redisson_lock_queue:{job}").Val() == 0
	})
	mustUnlock(t, l)
	mustUnlock(t, mustLock(t, c, "job", fair))
}

// TestNobodyAsksRedisBusilyBehindADeadWaiterOfRedisson leaves what a Redisson that died leaves: a place for minutes.
func TestNobodyAsksRedisBusilyBehindADeadWaiterOfRedisson(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	d, rc := startLockd(t, rs.Addr), rs.Client()
	const dead = "4ca0b9a6-1a2a-4a5c-a1a5-0cd2a2a4d7ee:1"
	err := errors.Join(
		rc.RPush(t.Context(), "redisson_lock_queue:{job}", dead).Err(),
		rc.ZAdd(t.Context(), "redisson_lock_timeout:{job}", redis.Z{
			Score: float64(time.Now().Add(5 * time.Minute).UnixMilli()), Member: dead,
		}).Err())
	if err != nil {
		t.Fatal(err)
	}
	calls := rs.ScriptCalls()
	var wg sync.WaitGroup
	for range 10 {
		c := d.Dial(t)
		wg.Go(func() { mustUnlock(t, mustLock(t, c, "job", client.As(client.Fair))) })
	}
	wg.Wait()
	if n := rs.ScriptCalls() - calls; n > 100 {
		t.Errorf("ten had their turns by %d scripts", n)
	}
}
