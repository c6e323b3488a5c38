package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// Redis Sentinel replaces a master that is killed. Holders keep what the new master has, and are told of the rest;
// those who wait are served, and those who ask meanwhile are answered.
func TestAMasterIsKilledBehindSentinels(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	d := harness.StartLockdOn(t, lockdBin, "LOCKD_STORE_KIND=sentinel", "LOCKD_SESSION_TTL=20s",
		"LOCKD_REDIS_SENTINEL_MASTER="+redistest.MasterName, "LOCKD_REDIS_SENTINEL_ADDRS="+strings.Join(k.Addrs, ","))
	var seen statuses
	c, other := d.Dial(t, client.WithOnStatus(seen.add)), d.Dial(t)
	var kept []*client.Lock
	for i := range 20 {
		kept = append(kept, mustLock(t, c, fmt.Sprint("job ", i)))
	}
	master := k.Master()
	master.Replicated(2)
	k.CutOff(master)
	lost := mustLock(t, c, "of the old master")
	granted := make(chan *client.Lock, 2)
	for _, name := range []string{"job 0", lost.Name()} {
		go func() { granted <- mustLock(t, other, name) }()
	}
	harness.Until(t, "two wait", func() bool { return d.Metric("lockd_waiters") == 2 })

	master.Kill()
	begun := time.Now()
	harness.Until(t, "told that locks are at risk", func() bool { return slices.Contains(seen.list(), client.AtRisk) })
	for asked := 0; !slices.Contains(seen.list(), client.Safe); asked++ {
		asks(t, other, fmt.Sprint("meanwhile ", asked))
		if time.Since(begun) > patience {
			t.Fatalf("not safe within %v: %v", patience, seen.list())
		}
	}
	harness.Soon(t, "the loss is told", lost.Lost())
	wantLost(t, lost, client.LostData)
	if l := harness.Soon(t, "who waited for the lost lock has it", granted); l.Name() != lost.Name() ||
		l.Fence() <= lost.Fence() {
		t.Errorf("%s was granted with fence %d, want %s with more than %d", l.Name(), l.Fence(), lost.Name(), lost.Fence())
	}
	rc := k.Master().Client()
	for _, l := range kept {
		if s := look(t, rc, l.Name()); l.Err() != nil || len(s.fields) != 1 {
			t.Errorf("%s: %v, in the new master %v", l.Name(), l.Err(), s.fields)
		}
	}
	for _, l := range kept {
		mustUnlock(t, l)
	}
	if l := harness.Soon(t, "who waited for a kept lock has it", granted); l.Fence() <= kept[0].Fence() {
		t.Errorf("fence %d after %d", l.Fence(), kept[0].Fence())
	}
}

// asks tries a lock, which must be answered by the truth.
func asks(t *testing.T, c *client.Client, name string) {
	t.Helper()
	l, err := c.TryLock(t.Context(), name)
	switch {
	case err == nil:
		mustUnlock(t, l)
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrOutcomeUnknown):
	default:
		t.Errorf("got %v, want that the store is away", err)
	}
	time.Sleep(20 * time.Millisecond)
}

// With redis.wait_replicas a grant that only the old master has is never told.
func TestAGrantWaitsForReplicas(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	d := harness.StartLockdOn(t, lockdBin, "LOCKD_STORE_KIND=sentinel", "LOCKD_SESSION_TTL=20s",
		"LOCKD_REDIS_WAIT_REPLICAS=1",
		// Half of it is for the replicas, which a busy machine makes slow.
		"LOCKD_SESSION_MIN_TTL=4s", "LOCKD_REDIS_OP_TIMEOUT=4s",
		"LOCKD_REDIS_SENTINEL_MASTER="+redistest.MasterName, "LOCKD_REDIS_SENTINEL_ADDRS="+strings.Join(k.Addrs, ","))
	c := d.Dial(t)
	kept := mustLock(t, c, "kept")
	master := k.Master()
	k.CutOff(master)
	if _, err := c.TryLock(t.Context(), "refused"); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("got %v, want that no grant is told without a replica", err)
	}
	if s := look(t, master.Client(), "refused"); len(s.fields) != 0 {
		t.Errorf("the refused lock is held in the old master: %v", s.fields)
	}
	master.Kill()
	k.Settle(master.Addr)
	harness.Until(t, "the new master grants", func() bool {
		l, err := c.TryLock(t.Context(), "refused")
		if err == nil {
			mustUnlock(t, l)
		}
		return err == nil
	})
	if kept.Err() != nil {
		t.Errorf("the lock that a replica had is lost: %v", kept.Err())
	}
	mustUnlock(t, kept)
}
