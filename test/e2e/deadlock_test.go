package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// rows are what lockctl lists at a replica, of all of them.
func rows(t *testing.T, d *harness.Lockd, args ...string) (found []map[string]any) {
	t.Helper()
	p := whole(t, d, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(p.Stdout.String()), &found); err != nil || p.Code() != 0 {
		t.Fatalf("%v: %v: %s %s", args, err, p.Stdout.String(), p.Stderr.String())
	}
	return found
}

// Three sessions at two replicas wait for each other in a circle. People are told so at each replica, with the holders
// and waiters of both; the youngest fails, and the others go on.
func TestADeadlockOverTwoReplicasIsShownAndItsYoungestFails(t *testing.T) {
	onEachStore(t, func(t *testing.T, masters []*redistest.Server) {
		const n = 3
		ds := startReplicas(t, masters, 2)
		var clients [n]*client.Client
		var held [n]*client.Lock
		var waits [n]<-chan *client.Lock
		actor := func(i int) client.LockOption { return client.Actor(fmt.Sprint("actor ", i)) }
		for i := range n {
			opts := []client.Option{client.WithName(fmt.Sprint("client ", i)), client.WithSessionTTL(time.Minute)}
			if i == n-1 {
				opts = append(opts, client.WithFailOnDeadlock())
			}
			clients[i] = ds[i%2].Dial(t, opts...)
			held[i] = mustLock(t, clients[i], fmt.Sprint("job ", i), actor(i), client.Annotation("a test"))
		}
		for i := range n - 1 {
			waits[i] = queue(t, clients[i], fmt.Sprint("job ", i+1), actor(i))
		}
		for _, d := range ds {
			if all := rows(t, d, "ls"); len(all) != n || all[1]["client"] != "client 1" || all[1]["replica"] != "b" ||
				all[1]["waiters"] != 1.0 || all[1]["annotation"] != "a test" {
				t.Errorf("ls at %s: %v", d.Addr, all)
			}
			if all := rows(t, d, "waiters"); len(all) != n-1 {
				t.Errorf("waiters at %s: %v", d.Addr, all)
			}
			whole(t, d, "deadlocks").Want(0, "no deadlocks\n")
		}

		_, err := clients[n-1].Lock(t.Context(), "job 0", actor(n-1))
		deadlock, ok := errors.AsType[*client.DeadlockError](err)
		if !ok || client.Reason(err) != "DEADLOCK" || len(deadlock.Members) != n {
			t.Fatalf("got %v, want a deadlock of %d", err, n)
		}
		if m := deadlock.Members[0]; m.Client != "client 2" || m.Name != "job 0" || m.Fence != held[0].Fence() {
			t.Errorf("the youngest is told as %+v", m)
		}
		harness.Until(t, "it is counted once", func() bool {
			return ds[0].Metric("lockd_deadlocks_found_total")+ds[1].Metric("lockd_deadlocks_found_total") == 1
		})
		for i := n - 1; i >= 0; i-- { // what the youngest holds it kept
			mustUnlock(t, held[i])
			if i > 0 {
				mustUnlock(t, harness.Soon(t, "the next one has the lock", waits[i-1]))
			}
		}
	})
}
