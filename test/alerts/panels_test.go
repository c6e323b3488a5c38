package alerts

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// onlyShown are what panels show and no alert is about.
var onlyShown = map[string]fault{
	"a replica is drained":            {nil, nil, aReplicaIsDrained},
	"clients work":                    {nil, nil, clientsWork},
	"a deadlock is ended":             {nil, nil, aDeadlockIsEnded},
	"too many wait":                   {[]string{"LockdQuotaDenied"}, nil, tooManyWait},
	"a slot moves":                    {nil, []string{"LockdOutcomesUnknown"}, aSlotMoves},
	"a member forgets, one is paused": {[]string{"LockdMemberDown"}, outage, aMemberForgets},
}

// seen waits until a query has given something, so that it is in the history.
func (s *scene) seen(metric string) {
	s.t.Helper()
	harness.Until(s.t, "scraped: "+metric, func() bool {
		return len(s.query(s.t, metric+`{instance="`+s.addr+`"} > 0`)) > 0
	})
}

func aReplicaIsDrained(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr)...)
	take(t, dial(t, d), "job") // has nowhere to go
	_, err := lockdv1.NewAdminServiceClient(d.Operate(t)).Drain(t.Context(), &lockdv1.DrainRequest{})
	harness.Must(t, err)
	s.seen("lockd_drain_remaining_sessions")
	return func() {}
}

func clientsWork(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr)...)
	watcher := dial(t, d)
	_, err := watcher.Watch(t.Context(), "fair")
	harness.Must(t, err)
	work(t, 3*time.Second, everyKind, d)
	s.seen("lockd_watched_names")
	s.seen("lockd_wakeup_by_total")
	return func() {}
}

func aDeadlockIsEnded(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr)...)
	a, b := dial(t, d, client.WithActor("a")), dial(t, d, client.WithActor("b"), client.WithFailOnDeadlock())
	take(t, a, "one")
	take(t, b, "two")
	wait(t, a, "two")
	harness.Until(t, "one waits", func() bool { return d.Metric("lockd_waiters") == 1 })
	if _, err := b.Lock(t.Context(), "one"); !errors.Is(err, client.ErrDeadlock) {
		t.Fatalf("got %v", err)
	}
	s.seen("lockd_deadlock_failures_total")
	return func() {}
}

func tooManyWait(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr, "LOCKD_LIMITS_QUEUE_LENGTH=1")...)
	c := dial(t, d)
	take(t, c, "job")
	wait(t, c, "job")
	harness.Until(t, "one waits", func() bool { return d.Metric("lockd_waiters") == 1 })
	if _, err := c.Lock(t.Context(), "job"); err == nil {
		t.Fatal("two wait")
	}
	return func() {}
}

func aSlotMoves(t *testing.T, s *scene) func() {
	k := redistest.StartCluster(t)
	d := s.serve(slices.Concat(patient, []string{
		"LOCKD_STORE_KIND=cluster", "LOCKD_REDIS_CLUSTER_ADDRS=" + k.Nodes[0].Addr,
	})...)
	c := dial(t, d)
	m := k.Migrate(k.Slot("job"))
	use := func() bool {
		l, err := c.Lock(t.Context(), "job")
		return err == nil && l.Unlock(t.Context()) == nil
	}
	if use() { // a cluster lets nobody make several keys in a slot that is being moved
		t.Error("the slot did not move")
	}
	m.Finish()
	harness.Until(t, "the name can be locked after that", use)
	s.seen("lockd_redis_redirections_total")
	return func() {}
}

// A member that is emptied gets its holds back, and has another fence. What is released while one stands still is
// released there later.
func aMemberForgets(t *testing.T, s *scene) func() {
	servers := redistest.StartMasters(t, 3)
	d := s.serve(over(servers, "LOCKD_REDLOCK_QUARANTINE=0", "LOCKD_LIMITS_MAX_LEASE=1h")...)
	c := dial(t, d, client.WithSessionTTL(ttl))
	other := take(t, c, "other")
	take(t, c, "job")
	harness.Must(t, servers[0].Client().FlushAll(t.Context()).Err())
	s.seen("lockd_redlock_holds_restored_total")
	for i, rs := range servers { // as if each had seen other grants
		fence := time.Now().Add(time.Duration(i+1) * time.Hour).UnixMicro()
		harness.Must(t, rs.Client().Set(t.Context(), "redisson_lock_token:{third}", fence, time.Hour).Err())
	}
	take(t, c, "third")
	s.seen("lockd_redlock_fence_raises_total")
	servers[2].Pause()
	if err := other.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	s.seen("lockd_settle_pending")
	return servers[2].Resume
}

// Over a majority there are fewer kinds.
var (
	fewKinds  = []client.Kind{client.Exclusive, client.Read, client.Write}
	everyKind = []client.Kind{client.Exclusive, client.Fair, client.Read, client.Write, client.Semaphore}
)

// work has clients use locks of some kinds for some time, at some replicas.
func work(t *testing.T, d time.Duration, of []client.Kind, at ...*harness.Lockd) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	done := make(chan struct{})
	workers := 0
	for _, kind := range of {
		for j := range 2 * len(at) {
			c := dial(t, at[j%len(at)])
			name := kind.String()
			if kind == client.Write {
				name = client.Read.String() // of the same book
			}
			workers++
			go func() {
				defer func() { done <- struct{}{} }()
				toil(ctx, t, c, name, kind)
			}()
		}
	}
	for range workers {
		<-done
	}
}

// toil takes a name, holds it and releases it, again and again.
func toil(ctx context.Context, t *testing.T, c *client.Client, name string, kind client.Kind) {
	opts := []client.LockOption{client.As(kind), client.Wait(20 * time.Second)}
	if kind == client.Semaphore {
		opts = append(opts, client.Permits(1, 2))
	}
	for ctx.Err() == nil {
		l, err := c.Lock(context.WithoutCancel(ctx), name, opts...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
		if err := l.Unlock(context.WithoutCancel(ctx)); err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}
