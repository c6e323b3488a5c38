package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// Three of five masters are killed while locks are held and watched, and come back with their data or without. Each
// lock ends once for each watcher: when it was released, when its lease was over, or when a majority has lost it. One
// that a majority has yet does not end.
func TestThreeOfFiveMastersAreKilledWhileLocksAreWatched(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for what, args := range map[string][]string{"and come back as they were": durable, "and come back empty": nil} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			masters := redistest.StartMasters(t, 5, args...)
			env := []string{"LOCKD_SESSION_TTL=60s", "LOCKD_REDLOCK_QUARANTINE=60s"}
			a, b := startRedlock(t, masters, env...), startRedlock(t, masters, env...)
			watched := map[string][]ear{}
			for _, name := range []string{"kept", "released", "expired", "none"} {
				watched[name] = []ear{watch(t, a, "a: "+name, name), watch(t, b, "b: "+name, name)}
			}
			c, unary := a.Dial(t), lockdv1.NewLockServiceClient(a.Connect(t))
			kept, released := mustLock(t, c, "kept"), mustLock(t, c, "released")
			const short = 5 * time.Second
			lease, err := unary.Acquire(t.Context(), &lockdv1.AcquireRequest{Name: "expired", Lease: durationpb.New(short)})
			if err != nil || lease.GetGranted() == nil {
				t.Fatal(lease, err)
			}
			over := time.Now().Add(short)
			time.Sleep(3 * soonTold) // all is seen by then

			for _, m := range masters[:3] {
				m.Kill()
			}
			if err := released.Unlock(t.Context()); err == nil {
				t.Error("released without a majority")
			}
			if _, err := c.TryLock(t.Context(), "none"); err == nil {
				t.Error("locked without a majority")
			}
			time.Sleep(time.Until(over.Add(soonTold)))
			for _, m := range masters[:3] {
				m.Restart()
			}

			oneEnd(t, watched["released"], released.Fence(), client.UnlockReleased)
			oneEnd(t, watched["expired"], lease.GetGranted().GetFence(), client.UnlockExpired, client.UnlockUnknown)
			if args == nil {
				harness.Soon(t, "the loss", kept.Lost())
				oneEnd(t, watched["kept"], kept.Fence(), client.UnlockDataLoss, client.UnlockUnknown)
			} else {
				harness.Until(t, "masters grant locks again", func() bool {
					l, err := c.TryLock(t.Context(), "other")
					return err == nil && l.Unlock(t.Context()) == nil
				})
				mustUnlock(t, kept)
				oneEnd(t, watched["kept"], kept.Fence(), client.UnlockReleased)
				l := mustLock(t, c, "kept")
				mustUnlock(t, l)
				oneEnd(t, watched["kept"], l.Fence(), client.UnlockReleased)
			}
			time.Sleep(soonTold)
			for _, ears := range watched {
				for _, e := range ears {
					e.none()
				}
			}
		})
	}
}

// oneEnd fails unless the next that each hears is this end, with one of these causes.
func oneEnd(t *testing.T, ears []ear, fence uint64, causes ...client.UnlockCause) {
	t.Helper()
	for _, e := range ears {
		u := harness.Soon(t, e.who, e.events)
		if u.Fence != fence || !slices.Contains(causes, u.Cause) || u.Merged > 0 || u.Gap {
			t.Errorf("%s heard %+v, want one of %v with fence %d", e.who, u, causes, fence)
		}
	}
}

// Holders of Redisson's RedLock have another id at each master. Watchers hear of the end of each hold, also of one that
// runs out; and who waits for it does not try all the time.
func TestWatchersOverMastersHearOfHoldsOfOthers(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	masters := redistest.StartMasters(t, 3, durable...)
	a, b := startRedlock(t, masters), startRedlock(t, masters)
	ears := []ear{watch(t, a, "a", "job"), watch(t, b, "b", "job")}
	var rcs []*redis.Client
	for _, m := range masters {
		rcs = append(rcs, m.Client())
	}
	take := func(same bool, ttl time.Duration) {
		t.Helper()
		for i, rc := range rcs {
			id := redisson
			if !same {
				id = fmt.Sprintf("%d85275da-9152-4c83-822a-67ee2f116a7%d:52", i, i)
			}
			_, err := rc.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
				p.HSet(t.Context(), "job", id, 1)
				p.PExpire(t.Context(), "job", ttl)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, same := range []bool{true, false} {
		for range 3 {
			take(same, time.Minute)
			time.Sleep(20 * time.Millisecond)
			for _, rc := range rcs {
				freeAsRedisson(t, rc, "job")
			}
			oneEnd(t, ears, 0, client.UnlockReleased)
		}
		take(same, 2*time.Second) // long enough to be seen
		oneEnd(t, ears, 0, client.UnlockExpired)
	}
	take(false, 10*time.Second)
	before := masters[0].ScriptCalls()
	if _, err := a.Dial(t).Lock(t.Context(), "job", client.Wait(3*time.Second)); err == nil {
		t.Error("locked, and others have it")
	}
	if n := masters[0].ScriptCalls() - before; n > 60 {
		t.Errorf("one who waited for 3 s had %d scripts run at a master", n)
	}
}
