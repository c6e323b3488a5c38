package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

func TestNothingIsLeftWhenAllClientsHaveLeft(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	t.Run("warm up", func(t *testing.T) { crowdOf(t, a, b, "warm") })
	settle(t, rc, a, b)
	before := []float64{a.Metric("go_goroutines"), b.Metric("go_goroutines")}

	t.Run("use", func(t *testing.T) {
		for i := range tier.Pick(1, 5) {
			crowdOf(t, a, b, fmt.Sprint("name ", i))
		}
	})
	left := time.Now()
	settle(t, rc, a, b)
	t.Logf("all clean %v after the last client left", time.Since(left))
	for i, d := range []*harness.Lockd{a, b} {
		harness.Until(t, "the goroutines are back", func() bool { return d.Metric("go_goroutines") <= before[i] })
	}
}

// settle waits until nobody knows of any client any more: leases run out within a TTL, channels are left 5 s later.
func settle(t *testing.T, rc *redis.Client, ds ...*harness.Lockd) {
	t.Helper()
	harness.Within(t, shortly+10*time.Second, "no lock, no session and no subscription is left", func() bool {
		channels, err := rc.PubSubChannels(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		channels = slices.DeleteFunc(channels, func(c string) bool { // what all replicas always hear
			return c == "lockd:control" || strings.HasPrefix(c, "lockd:peers:")
		})
		clean := len(channels) == 0 && len(keys(t, rc)) == 0
		for _, d := range ds {
			clean = clean && d.Metric("lockd_sessions") == 0 && d.Metric("lockd_waiters") == 0 &&
				d.Metric("lockd_watched_names") == 0
		}
		return clean
	})
}

// crowdOf uses a name in every way, and leaves in every way.
func crowdOf(t *testing.T, a, b *harness.Lockd, name string) {
	t.Helper()
	conn := a.Connect(t)
	// One that breaks off while it holds, one that does so while it waits, and one of each that wants all released.
	for i, how := range []lockdv1.OnDisconnect{
		lockdv1.OnDisconnect_ON_DISCONNECT_EXPIRE,
		lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE,
	} {
		job := fmt.Sprint(name, " of the broken ", i)
		holds, waits := open(t, conn, &lockdv1.Open{OnDisconnect: how}), open(t, conn, &lockdv1.Open{OnDisconnect: how})
		holds.take(1, job)
		waits.send(acquire(1, &lockdv1.Acquire{Name: job}))
		if waits.recv().GetQueued() == nil {
			t.Fatal("want Queued")
		}
		waits.cancel()
		holds.cancel()
	}
	// Leases without a session: one given back, one left.
	locks := lockdv1.NewLockServiceClient(conn)
	for i := range 2 {
		job := fmt.Sprint(name, " of a shell ", i)
		got, err := locks.Acquire(t.Context(), &lockdv1.AcquireRequest{Name: job, Lease: seconds(1)})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if _, err := locks.Release(t.Context(),
				&lockdv1.ReleaseRequest{Name: job, LeaseId: got.GetGranted().GetLeaseId()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Those who wait on another replica, give up waiting, and watch.
	ca, cb := a.Dial(t), b.Dial(t)
	events, err := cb.Watch(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	l := mustLock(t, ca, name)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { _, _ = cb.Lock(ctx, name) })
	}
	wg.Go(func() { mustUnlock(t, mustLock(t, cb, name, client.Wait(time.Minute))) })
	harness.Until(t, "they wait", func() bool { return b.Metric("lockd_waiters") == 6 })
	cancel()
	harness.Until(t, "they have given up", func() bool { return b.Metric("lockd_waiters") == 1 })
	mustUnlock(t, l)
	wg.Wait()
	harness.Soon(t, "the watcher is told", events)
	mustLock(t, ca, name) // closing the client releases it
}
