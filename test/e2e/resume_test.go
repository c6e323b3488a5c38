package e2e

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

// Fifty clients hold a lock each at a replica that is killed. All go on at the other one, with what they have.
func TestHoldersOfAKilledReplicaGoOnAtTheOther(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	const holders = 50
	locks, owners := make([]*client.Lock, holders), make([]string, holders)
	var all sync.WaitGroup
	for i := range locks {
		all.Go(func() {
			c, err := client.Dial(a.Addr + "," + b.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			if locks[i], err = c.Lock(t.Context(), fmt.Sprint("job:", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for i := range locks {
		owners[i] = look(t, rc, locks[i].Name()).owner()
	}
	a.Signal(syscall.SIGKILL)
	time.Sleep(2 * shortly) // every lease would have ended
	for i, l := range locks {
		s := look(t, rc, l.Name())
		if l.Err() != nil || s.owner() != owners[i] {
			t.Errorf("%s: %v, owner %q, was %q", l.Name(), l.Err(), s.owner(), owners[i])
			continue
		}
		fence := l.Fence()
		mustUnlock(t, l)
		if again := mustLock(t, b.Dial(t), l.Name()); again.Fence() <= fence {
			t.Errorf("fence %d after %d", again.Fence(), fence)
		}
	}
}

// A rolling update: the replica drains, and its holders move before it stops.
func TestHoldersOfADrainingReplicaMoveToTheOther(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	var seen statuses
	c, err := client.Dial(a.Addr+","+b.Addr, client.WithOnStatus(seen.add))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	l := mustLock(t, c, "job")
	began := time.Now()
	a.Signal(syscall.SIGTERM)
	if code := a.Code(); code != 0 {
		t.Errorf("the replica ended with %d", code)
	}
	t.Logf("the replica stopped after %v", time.Since(began))
	time.Sleep(2 * shortly)
	if want := []client.State{client.Connected, client.Draining, client.Connected}; !slices.Equal(seen.list(), want) {
		t.Errorf("told %v, want %v", seen.list(), want)
	}
	if l.Err() != nil {
		t.Fatalf("the lock: %v", l.Err())
	}
	mustUnlock(t, l)
}

// What runs below lockctl exec outlives the replica.
func TestExecOutlivesItsReplica(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	p := startLockctl(a, "--addr", a.Addr+","+b.Addr, "exec", "job", "--", "sleep", "12")
	child := childOf(t, p.PID())
	time.Sleep(time.Second)
	a.Signal(syscall.SIGKILL)
	ended(t, child)
	p.Want(0, "")
}
