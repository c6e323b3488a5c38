package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

// Of a thousand that wait for a name that is released, one is woken. Redis is asked once for each grant, and to keep
// the records of a few sessions.
func TestAThousandWaitersAreGrantedInTheirOrder(t *testing.T) {
	t.Parallel()
	const waiters, sessions = 1000, 10
	rs, d := oneReplica(t)
	var clients []*client.Client
	for range sessions {
		clients = append(clients, d.Dial(t, client.WithSessionTTL(10*time.Minute)))
	}
	last := mustLock(t, clients[0], "hot")
	all := make([]<-chan *client.Lock, waiters)
	for i := range all {
		all[i] = queue(t, clients[i%sessions], "hot")
	}
	calls := rs.ScriptCalls()
	for i, w := range all {
		mustUnlock(t, last)
		next := harness.Soon(t, fmt.Sprint("waiter ", i, " is granted"), w)
		if next.Fence() <= last.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), last.Fence())
		}
		last = next
	}
	if calls = rs.ScriptCalls() - calls; calls > waiters*11/10 {
		t.Errorf("%d scripts for %d grants, want 1.1 for each at most", calls, waiters)
	}
	mustUnlock(t, last)
}
