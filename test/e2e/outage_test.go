package e2e

import (
	"errors"
	"fmt"
	"testing"

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
			held := mustLock(t, c, "job")
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
			mustUnlock(t, next)
			told.await(t, client.Safe)
			for kind, opts := range kinds { // what was asked for in vain is held by nobody
				mustUnlock(t, mustLock(t, asker, fmt.Sprint("in vain ", kind), opts...))
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
