package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// Fair waiters of three replicas are served in the order in which they came. One of the replicas is killed when a third
// had their turns: everybody else keeps the order.
func TestAKilledReplicaCostsItsFairWaitersOnly(t *testing.T) {
	t.Parallel()
	for what, kill := range map[string]int{"whose waiter is the next": 20, "whose waiter holds the lock": 21} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			rs := redistest.Start(t)
			ds := startReplicas(t, []*redistest.Server{rs}, 3, soonOver)
			const victim, name = 2, "hot"
			var clients []*client.Client
			for _, d := range ds {
				clients = append(clients, d.Dial(t))
			}
			fair := client.As(client.Fair)
			last, at := mustLock(t, clients[0], name, fair), 0
			waiters := make([]<-chan *client.Lock, tier.Pick(60, 600))
			for i := range waiters {
				waiters[i] = queue(t, clients[i%len(ds)], name, fair)
			}
			for i, w := range waiters {
				if i == kill {
					ds[victim].Kill()
				}
				if i >= kill && i%len(ds) == victim {
					continue
				}
				if i < kill || at != victim {
					mustUnlock(t, last)
				}
				next := harness.Soon(t, fmt.Sprint("the turn of waiter ", i), w)
				if next.Fence() <= last.Fence() {
					t.Errorf("fence %d after %d", next.Fence(), last.Fence())
				}
				last, at = next, i%len(ds)
			}
			mustUnlock(t, last)
			harness.Until(t, "whoever comes takes out those who died", func() bool {
				mustUnlock(t, mustLock(t, clients[0], name, fair))
				return len(keys(t, rs.Client())) == 0
			})
		})
	}
}

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
