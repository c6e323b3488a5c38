package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

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

// Masters that are restarted without their data, one after the other, do not take a lock from its holder.
func TestMastersAreRestartedEmptyOneAfterTheOther(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	masters := redistest.StartMasters(t, 5)
	d := startLockd(t, redistest.Addrs(masters), soonOver, "LOCKD_REDLOCK_QUARANTINE=5s")
	c := d.Dial(t)
	l := mustLock(t, c, "job")
	for _, m := range masters {
		m.Kill()
		m.Restart()
		harness.Until(t, "the lock is put back", func() bool { return has(t, m, "job") })
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
	other := d.Dial(t)
	if _, err := other.TryLock(t.Context(), "job"); !errors.Is(err, client.ErrHeld) {
		t.Errorf("got %v, want that it is held", err)
	}
	mustUnlock(t, l)
	if fence := awaitGrant(t, other, "job"); fence <= l.Fence() {
		t.Errorf("fence %d after %d", fence, l.Fence())
	}
}

// A name that is wanted all the time passes from one to the next while masters stand still and go on, two of five at a
// time, and waiters leave. When all is over no master has anything.
func TestANamePassesOnWhileMastersStandStill(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	masters := redistest.StartMasters(t, 5, durable...)
	ds := startReplicas(t, masters, 2, soonOver)
	r := &room{}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for i := range 8 {
		c := ds[i%2].Dial(t)
		all.Go(func() {
			for ctx.Err() == nil {
				one, leave := context.WithCancel(ctx)
				if rand.IntN(4) == 0 {
					time.AfterFunc(rand.N(20*time.Millisecond), leave)
				}
				if err := pass(one, c, "job", r); err != nil && one.Err() == nil {
					t.Logf("lock or unlock: %v", err)
				}
				leave()
			}
		})
	}
	for ctx.Err() == nil {
		some := rand.Perm(len(masters))[:1+rand.IntN(2)]
		for _, i := range some {
			masters[i].Pause()
		}
		time.Sleep(rand.N(3 * time.Second))
		for _, i := range some {
			masters[i].Resume()
		}
		time.Sleep(rand.N(time.Second))
	}
	all.Wait()
	if visits, err := r.verdict(); err != nil || visits < 10 {
		t.Errorf("%d visits (less than 10 mean nothing): %v", visits, err)
	}
	for _, m := range masters {
		harness.Until(t, "no master has anything", func() bool { return !has(t, m, "job") })
	}
}
