package e2e

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
)

// wantLost checks why a lock was lost.
func wantLost(t *testing.T, l *client.Lock, reason client.LostReason) {
	t.Helper()
	if lost, ok := errors.AsType[*client.LostError](l.Err()); !ok || lost.Reason != reason {
		t.Errorf("%s: got %v, want it lost: %s", l.Name(), l.Err(), reason)
	}
}

func TestHoldersHearOfLostData(t *testing.T) {
	t.Parallel()
	d, rc := oneReplica(t)
	var locks []*client.Lock
	for i := range 12 { // whose renewals are spread over the interval
		locks = append(locks, mustLock(t, d.Dial(t), fmt.Sprint("job ", i)))
		time.Sleep(shortly / 3 / 12)
	}
	if err := rc.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, l := range locks {
		wg.Go(func() {
			<-l.Lost()
			wantLost(t, l, client.LostData)
			// Fences go on although Redis has forgotten them.
			if again := mustLock(t, d.Dial(t), l.Name()); again.Fence() <= l.Fence() {
				t.Errorf("fence %d after %d", again.Fence(), l.Fence())
			}
		})
	}
	wg.Wait()
}

func TestNobodyNoticesScriptFlush(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	rc := rs.Client()
	d := startLockd(t, rs.Addr, "LOCKD_SESSION_TTL="+shortly.String())
	held := mustLock(t, d.Dial(t), "held all the time")
	clients := []*client.Client{d.Dial(t), d.Dial(t), d.Dial(t), d.Dial(t)}
	end := time.Now().Add(shortly + time.Second)
	var wg sync.WaitGroup
	var pairs, flushes atomic.Int64
	for i := range tier.Pick(16, 64) {
		name := fmt.Sprint("job ", i%16)
		wg.Go(func() {
			for time.Now().Before(end) {
				l, err := clients[i%len(clients)].Lock(t.Context(), name)
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				pairs.Add(1)
			}
		})
	}
	wg.Go(func() {
		for ; time.Now().Before(end); flushes.Add(1) {
			if err := rc.ScriptFlush(t.Context()).Err(); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	wg.Wait()
	if err := held.Err(); err != nil {
		t.Errorf("the lock that was only renewed: %v", err)
	}
	if pairs.Load() < 10 || flushes.Load() < 10 {
		t.Errorf("only %d locks and %d flushes", pairs.Load(), flushes.Load())
	}
}
