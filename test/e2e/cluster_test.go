package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// A master of a Redis Cluster is killed and its replica takes over: what was replicated stays held, and the others go
// on all the time.
func TestAMasterOfAClusterIsKilled(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	k := redistest.StartCluster(t)
	d := harness.StartLockdOn(t, lockdBin, "LOCKD_STORE_KIND=cluster", "LOCKD_SESSION_TTL=20s",
		"LOCKD_REDIS_CLUSTER_ADDRS="+strings.Join(k.Addrs()[:2], ","))
	c, other := d.Dial(t), d.Dial(t)
	var held []*client.Lock
	for i := range 30 {
		held = append(held, mustLock(t, c, fmt.Sprint("job ", i)))
	}
	waiting := make(chan *client.Lock, 1)
	go func() { waiting <- mustLock(t, other, "job 0") }()
	harness.Until(t, "one waits", func() bool { return d.Metric("lockd_waiters") == 1 })

	master := k.MasterOf(k.Slot("job 0"))
	replica := k.ReplicaOf(master)
	master.Replicated(1)
	master.Kill()
	k.AwaitMaster(replica)
	harness.Until(t, "all names can be taken again", func() bool {
		for i := range 30 {
			l, err := other.TryLock(t.Context(), fmt.Sprint("new ", i))
			if err != nil || l.Unlock(t.Context()) != nil {
				return false
			}
		}
		return true
	})
	for _, l := range held {
		if l.Err() != nil {
			t.Errorf("%s is lost: %v", l.Name(), l.Err())
		}
	}
	mustUnlock(t, held[0])
	if l := harness.Soon(t, "who waited has it", waiting); l.Fence() <= held[0].Fence() {
		t.Errorf("fence %d after %d", l.Fence(), held[0].Fence())
	}
	// Several names on several nodes are one request.
	var items []client.Item
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		items = append(items, client.Item{Name: name})
	}
	all, err := other.LockAll(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
