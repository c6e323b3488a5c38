package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// soonTold is by when lockd has seen a hold, and told of its end.
const soonTold = 500 * time.Millisecond

// ear is who watches a name from a replica.
type ear struct {
	t      *testing.T
	who    string
	events <-chan client.Unlocked
}

func watch(t *testing.T, d *harness.Lockd, who, name string) ear {
	t.Helper()
	// With a short TTL the client would take a busy machine for a silent server, and tell of a gap.
	events, err := d.Dial(t, client.WithSessionTTL(time.Minute)).Watch(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return ear{t, who, events}
}

// hears fails unless the next end is told with this cause and fence.
func (e ear) hears(cause client.UnlockCause, fence uint64) {
	e.t.Helper()
	select {
	case u := <-e.events:
		if u.Cause != cause || u.Fence != fence || u.Merged > 0 || u.Gap {
			e.t.Errorf("%s heard %+v, want %s with fence %d", e.who, u, cause, fence)
		}
	case <-time.After(patience):
		e.t.Fatalf("%s heard of no end, want %s", e.who, cause)
	}
}

func (e ear) none() {
	e.t.Helper()
	select {
	case u := <-e.events:
		e.t.Errorf("%s heard %+v as well", e.who, u)
	default:
	}
}

func TestWatchersOfAllReplicasHearEachEndOfAHoldOnce(t *testing.T) {
	t.Parallel()
	rs, a, b := twoReplicas(t)
	rc := rs.Client()
	c, second, unary := b.Dial(t), b.Dial(t), lockdv1.NewLockServiceClient(b.Connect(t))
	ears := []ear{watch(t, a, "a", "job"), watch(t, b, "b", "job")}
	told := func(cause client.UnlockCause, fence uint64) {
		t.Helper()
		for _, e := range ears {
			e.hears(cause, fence)
		}
	}
	quiet := func() {
		t.Helper()
		time.Sleep(200 * time.Millisecond)
		for _, e := range ears {
			e.none()
		}
	}
	ends := map[string]func(){
		"releases": func() {
			for range 5 {
				l := mustLock(t, c, "job")
				mustUnlock(t, l)
				told(client.UnlockReleased, l.Fence())
			}
		},
		"hand-over": func() {
			l := mustLock(t, c, "job")
			next := make(chan *client.Lock, 1)
			go func() { next <- mustLock(t, second, "job") }()
			harness.Until(t, "it waits", func() bool { return b.Metric("lockd_waiters") == 1 })
			mustUnlock(t, l)
			told(client.UnlockHandedOver, l.Fence())
			successor := harness.Soon(t, "the next one", next)
			mustUnlock(t, successor)
			told(client.UnlockReleased, successor.Fence())
		},
		"fair": func() {
			l := mustLock(t, c, "job", client.As(client.Fair))
			mustUnlock(t, l)
			told(client.UnlockReleased, l.Fence())
		},
		"expiries": func() {
			lease, err := unary.Acquire(t.Context(), &lockdv1.AcquireRequest{Name: "job", Lease: durationpb.New(time.Second)})
			if err != nil {
				t.Fatal(err)
			}
			told(client.UnlockExpired, lease.GetGranted().GetFence())
		},
		"redisson": func() {
			for range 3 {
				takeAsRedisson(t, rc, "job", time.Minute)
				time.Sleep(20 * time.Millisecond)
				freeAsRedisson(t, rc, "job")
				told(client.UnlockReleased, 0)
			}
			const lease = 2 * time.Second // long enough to be seen
			takeAsRedisson(t, rc, "job", lease)
			told(client.UnlockExpired, 0)
		},
		"force": func() {
			l := mustLock(t, c, "job")
			lockctl(b, "unlock", "job", "--force", "--reason", "stuck").Want(0, "unlocked job\n")
			told(client.UnlockForced, l.Fence())
		},
		"deleted key": func() {
			l := mustLock(t, c, "job")
			time.Sleep(soonTold) // it is seen by then
			rc.Del(t.Context(), "job")
			told(client.UnlockForced, l.Fence())
		},
		"lost data": func() {
			l := mustLock(t, c, "job")
			time.Sleep(soonTold)
			rc.FlushAll(t.Context())
			told(client.UnlockDataLoss, l.Fence())
		},
	}
	for _, what := range []string{
		"releases", "hand-over", "fair", "expiries", "redisson", "force", "deleted key",
		"lost data",
	} {
		ok := t.Run(what, func(t *testing.T) {
			ends[what]()
			quiet()
		})
		if !ok || t.Failed() {
			t.Fatalf("after %q it makes no sense to go on", what)
		}
	}
}

// Each of very many holds, by several clients on both replicas, ends once for each watcher.
func TestEachOfManyEndsOfAHotNameIsToldOnce(t *testing.T) {
	t.Parallel()
	_, a, b := twoReplicas(t)
	const workers = 8
	each := tier.Pick(25, 250)
	ears := []ear{watch(t, a, "a", "hot"), watch(t, b, "b", "hot")}
	counts := make(chan error, len(ears))
	for _, e := range ears {
		go func() {
			fences := make(map[uint64]bool)
			merged := 0
			for len(fences)+merged < workers*each {
				select {
				case u := <-e.events:
					if fences[u.Fence] || u.Fence == 0 || u.Gap {
						counts <- fmt.Errorf("%s heard %+v once more", e.who, u)
						return
					}
					fences[u.Fence] = true
					merged += int(u.Merged)
				case <-time.After(20 * time.Second):
					counts <- fmt.Errorf("%s heard of %d ends", e.who, len(fences)+merged)
					return
				}
			}
			time.Sleep(time.Second)
			if len(e.events) > 0 {
				counts <- fmt.Errorf("%s heard of more than there were: %+v", e.who, <-e.events)
				return
			}
			counts <- nil
		}()
	}
	done := make(chan error, workers)
	for i := range workers {
		c := []*harness.Lockd{a, b}[i%2].Dial(t)
		go func() {
			for range each {
				l, err := c.Lock(context.Background(), "hot")
				if err == nil {
					err = l.Unlock(context.Background())
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for range ears {
		if err := <-counts; err != nil {
			t.Error(err)
		}
	}
}
