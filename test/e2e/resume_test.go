package e2e

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// addrsOf is what a client is told that may use some replicas.
func addrsOf(ds ...*harness.Lockd) (addrs string) {
	for i, d := range ds {
		if i > 0 {
			addrs += ","
		}
		addrs += d.Addr
	}
	return addrs
}

// Fifty clients hold a lock each at a replica that is killed. All go on at the others, with what they have.
func TestHoldersOfAKilledReplicaGoOnAtTheOther(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		st := kind.start(t)
		ds := st.replicas(3)
		const (
			holders = 50
			ttl     = 2 * shortly // all fifty connect at once, on a machine that may be busy
		)
		locks, owners := make([]*client.Lock, holders), make([]string, holders)
		var all sync.WaitGroup
		for i := range locks {
			all.Go(func() {
				c, err := client.Dial(addrsOf(ds...), client.WithSessionTTL(ttl))
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
			owners[i] = st.look(locks[i].Name()).owner()
		}
		ds[0].Signal(syscall.SIGKILL)
		time.Sleep(2 * ttl) // every lease would have ended
		for i, l := range locks {
			s := st.look(l.Name())
			if l.Err() != nil || s.owner() != owners[i] || owners[i] == "" {
				t.Errorf("%s: %v, owner %q, was %q", l.Name(), l.Err(), s.owner(), owners[i])
				continue
			}
			fence := l.Fence()
			mustUnlock(t, l)
			if again := mustLock(t, ds[1+i%2].Dial(t), l.Name()); again.Fence() <= fence {
				t.Errorf("fence %d after %d", again.Fence(), fence)
			}
		}
	})
}

// A rolling update: the replica drains, and its holders move before it stops.
func TestHoldersOfADrainingReplicaMoveToTheOther(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		st := kind.start(t)
		ds := st.replicas(3)
		var seen statuses
		c, err := client.Dial(addrsOf(ds...), client.WithOnStatus(seen.add))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		l := mustLock(t, c, "job")
		owner := st.look("job").owner()
		began := time.Now()
		ds[0].Signal(syscall.SIGTERM)
		if code := ds[0].Code(); code != 0 {
			t.Errorf("the replica ended with %d", code)
		}
		t.Logf("the replica stopped after %v", time.Since(began))
		time.Sleep(2 * shortly)
		if want := []client.State{client.Connected, client.Draining, client.Connected}; !slices.Equal(seen.list(), want) {
			t.Errorf("told %v, want %v", seen.list(), want)
		}
		if l.Err() != nil || owner == "" || st.look("job").owner() != owner {
			t.Fatalf("the lock: %v, in the store %v, was %q", l.Err(), st.look("job").fields, owner)
		}
		mustUnlock(t, l)
	})
}

// What runs below lockctl exec outlives the replica. Nobody else is granted its lock meanwhile, and it has one fence.
func TestExecOutlivesItsReplica(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, kind storeKind) {
		onlyLong(t, kind.masters > 1)
		st := kind.start(t)
		ds := st.replicas(3)
		a, b, c := ds[0], ds[1], ds[2]
		p := startLockctl(a, "--addr", addrsOf(a, b), "exec", "job", "--", "sleep", "12")
		child := childOf(t, p.PID())
		fence := fenceOf(t, child)
		time.Sleep(time.Second)
		if n := a.Metric(`lockd_locks_held{kind="exclusive"}`); n != 1 {
			t.Fatalf("the replica that is killed has %v locks", n)
		}
		a.Signal(syscall.SIGKILL)
		other := c.Dial(t)
		owner, samples := st.look("job").owner(), 0
		for !gone(child) {
			l, err := other.TryLock(t.Context(), "job")
			s, now := st.look("job"), st.fence("job")
			if gone(child) {
				break
			}
			if !errors.Is(err, client.ErrHeld) || s.owner() != owner || now != fence {
				t.Fatalf("while the child runs with fence %d: %v, %v, fence %d, %v, was %q", fence, l, err, now, s.fields, owner)
			}
			samples++
			time.Sleep(50 * time.Millisecond)
		}
		p.Want(0, "")
		t.Logf("%d samples", samples)
		if next := mustLock(t, c.Dial(t), "job"); next.Fence() <= fence {
			t.Errorf("fence %d after %d", next.Fence(), fence)
		}
	})
}

var fenceVariable = regexp.MustCompile(`LOCKD_FENCE=(\d+)\x00`)

// fenceOf is the fence that a process below lockctl exec was given.
func fenceOf(t *testing.T, pid int) (fence uint64) {
	t.Helper()
	harness.Until(t, "the process has a fence", func() bool {
		environ, err := os.ReadFile(procFile(pid, "environ"))
		if err != nil {
			t.Fatal(err)
		}
		found := fenceVariable.FindSubmatch(environ) // not before it is what lockctl has started
		if found != nil {
			fence, err = strconv.ParseUint(string(found[1]), 10, 64)
		}
		return found != nil && err == nil
	})
	return fence
}
