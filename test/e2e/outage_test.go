package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// kinds are all kinds of locks, with what has to be asked for.
var kinds = map[string][]client.LockOption{
	"exclusive": nil,
	"fair":      {client.As(client.Fair)},
	"read":      {client.As(client.Read)},
	"write":     {client.As(client.Write)},
	"semaphore": {client.Permits(1, 1)},
}

// Redis does not answer, or is not there, for longer than leases last.
func TestLostAtTheEndOfItsValidityWhenRedisStaysAway(t *testing.T) {
	t.Parallel()
	for what, outage := range map[string]struct{ begin, end func(*redistest.Server) }{
		"paused":  {(*redistest.Server).Pause, (*redistest.Server).Resume},
		"stopped": {(*redistest.Server).Stop, (*redistest.Server).Restart},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			rs, d := oneReplica(t, soonOver, "LOCKD_REDIS_OP_TIMEOUT=500ms")
			told := make(statuses, 1000)
			c, asker := d.Dial(t, told.option()), d.Dial(t)
			var held *client.Lock
			harness.Must(t, whenBack(t, "the lock is granted", func() (err error) {
				held, err = c.Lock(t.Context(), "job")
				return err
			}))
			waiter := queue(t, d.Dial(t), "job")

			outage.begin(rs)
			told.await(t, client.AtRisk)
			for tries := 0; tries == 0 || held.Err() == nil; tries++ {
				for kind, opts := range kinds {
					_, err := asker.TryLock(t.Context(), fmt.Sprint("in vain ", kind), opts...)
					if !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOutcomeUnknown) {
						t.Errorf("a try of kind %s: got %v, want that the store is away", kind, err)
					}
				}
			}
			wantLost(t, held, client.LostExpired, client.LostDeadline)

			outage.end(rs)
			next := harness.Soon(t, "the waiter has the lock", waiter)
			if next.Fence() <= held.Fence() {
				t.Errorf("fence %d after %d", next.Fence(), held.Fence())
			}
			if err := next.Unlock(t.Context()); !excused(err) { // else it is tried until it is done
				t.Error(err)
			}
			told.await(t, client.Safe)
			for kind, opts := range kinds { // what was asked for in vain is held by nobody
				awaitGrant(t, asker, fmt.Sprint("in vain ", kind), opts...)
			}
		})
	}
}

// wantLost checks why a lock was lost.
func wantLost(t *testing.T, l *client.Lock, reasons ...client.LostReason) {
	t.Helper()
	lost, ok := errors.AsType[*client.LostError](l.Err())
	for _, reason := range reasons {
		if ok && lost.Reason == reason {
			return
		}
	}
	t.Errorf("%s: got %v, want it lost: %v", l.Name(), l.Err(), reasons)
}

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
	d := harness.StartLockdOn(t, lockdBin, append(behind(k), "LOCKD_SESSION_TTL=10m", "LOCKD_SESSION_MIN_TTL=5s",
		"LOCKD_REDIS_OP_TIMEOUT=5s")...)
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

	k.ReplaceSoon()
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

// durable are the arguments of a master that has every write on its disk.
var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Two of five masters are killed and nobody notices. With three gone, who asks is told so, and who holds is told until
// when.
func TestMastersAreKilledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	masters := redistest.StartMasters(t, 5, durable...)
	d := startLockd(t, redistest.Addrs(masters), soonOver)
	told := make(statuses, 1000)
	c := d.Dial(t, told.option())
	var held []*client.Lock
	for i := range 20 {
		held = append(held, mustLock(t, c, fmt.Sprint("job ", i)))
	}
	for _, m := range masters[:2] {
		m.Kill()
	}
	killed := time.Now()
	for _, l := range held { // was renewed afterwards
		for l.Err() == nil && l.Deadline().Before(killed.Add(shortly)) {
			mustUnlock(t, mustLock(t, c, "meanwhile"))
		}
	}
	for range len(told) {
		if st := <-told; st.State == client.AtRisk {
			t.Errorf("with three of five masters: told %v", st)
		}
	}
	for _, l := range held {
		if l.Err() != nil {
			t.Errorf("with three of five masters %s is lost: %v", l.Name(), l.Err())
		}
	}

	masters[2].Kill()
	told.await(t, client.AtRisk)
	_, err := c.TryLock(t.Context(), "in vain")
	if !errors.Is(err, client.ErrUnavailable) || !strings.Contains(err.Error(), "majority") {
		t.Errorf("got %v, want that there is no majority", err)
	}
	for _, l := range held {
		harness.Soon(t, "the loss is told", l.Lost())
	}

	for _, m := range masters[:3] {
		m.Restart()
	}
	awaitGrant(t, c, "job 0")
}
