package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// behind is what has a lockd use the master of sentinels.
func behind(k *redistest.Sentinels) []string {
	return []string{
		"LOCKD_STORE_KIND=sentinel", "LOCKD_REDIS_SENTINEL_MASTER=" + redistest.MasterName,
		"LOCKD_REDIS_SENTINEL_ADDRS=" + strings.Join(k.Addrs, ","),
	}
}

// Redis Sentinel replaces a master that is killed. Holders keep what the new master has, and are told of the rest;
// those who wait are served, and those who ask meanwhile are answered.
func TestAMasterIsKilledBehindSentinels(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	d := harness.StartLockdOn(t, lockdBin, append(behind(k), "LOCKD_SESSION_TTL=10m")...)
	told := make(statuses, 1000)
	c, other := d.Dial(t, told.option()), d.Dial(t)
	kept := make([]*client.Lock, 20)
	for i := range kept {
		kept[i] = mustLock(t, c, fmt.Sprint("job ", i))
	}
	master := k.Master()
	master.Replicated(2)
	k.CutOff(master)
	lost := mustLock(t, c, "of the old master")
	ofKept, ofLost := queue(t, other, "job 0"), queue(t, other, lost.Name())

	master.Kill()
	told.await(t, client.AtRisk)
	awaitGrant(t, other, "meanwhile")
	told.await(t, client.Safe)
	harness.Soon(t, "the loss is told", lost.Lost())
	wantLost(t, lost, client.LostData)
	if l := harness.Soon(t, "who waited for the lost lock has it", ofLost); l.Fence() <= lost.Fence() {
		t.Errorf("fence %d after %d", l.Fence(), lost.Fence())
	}
	for _, l := range kept {
		if l.Err() != nil || !has(t, k.Master(), l.Name()) {
			t.Errorf("%s: %v, in the new master %v", l.Name(), l.Err(), has(t, k.Master(), l.Name()))
		}
	}
	for _, l := range kept {
		mustUnlock(t, l)
	}
	if l := harness.Soon(t, "who waited for a kept lock has it", ofKept); l.Fence() <= kept[0].Fence() {
		t.Errorf("fence %d after %d", l.Fence(), kept[0].Fence())
	}
}
