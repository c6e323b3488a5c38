package e2e

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
)

const (
	crowdSize = 50
	each      = 20
)

// together runs f many times, side by side, and counts how often it is right.
func together(t *testing.T, f func(i int) error) (n int) {
	t.Helper()
	var wg sync.WaitGroup
	var right, wrong atomic.Int64
	for i := range crowdSize {
		wg.Go(func() {
			for j := range each {
				if err := f(i*each + j); err == nil {
					right.Add(1)
				} else if wrong.Add(1) == 1 {
					t.Log(err)
				}
			}
		})
	}
	wg.Wait()
	return int(right.Load())
}

// TestTriesTogetherAreGrantedWhileThereIsRoom has 50 callers take a thousand shared locks of one name, in all ways.
func TestTriesTogetherAreGrantedWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	const all = crowdSize * each
	rs := redistest.Start(t)
	// Long enough for the busiest machine.
	d := startLockd(t, rs.Addr, "LOCKD_SESSION_TTL=60s", "LOCKD_SESSION_MIN_TTL=20s", "LOCKD_REDIS_OP_TIMEOUT=20s")
	c := d.Dial(t)
	unary := lockdv1.NewLockServiceClient(d.Connect(t))
	once := func(name string, kind lockdv1.LockKind, wait time.Duration) func(int) error {
		return func(int) error {
			req := &lockdv1.AcquireRequest{
				Name: name, Kind: kind, Lease: durationpb.New(time.Minute),
				Wait: durationpb.New(wait),
			}
			if kind == lockdv1.LockKind_LOCK_KIND_SEMAPHORE {
				req.Limit = all
			}
			r, err := unary.Acquire(t.Context(), req)
			if err == nil && r.GetGranted() == nil {
				err = fmt.Errorf("not granted: %v", r.GetNotGranted())
			}
			return err
		}
	}
	sdk := func(name string, try bool, opts ...client.LockOption) func(int) error {
		return func(int) error {
			lock := c.Lock
			if try {
				lock = c.TryLock
			}
			_, err := lock(t.Context(), name, opts...)
			return err
		}
	}
	for what, f := range map[string]func(int) error{
		"try permits":   sdk("p1", true, client.Permits(1, all)),
		"wait permits":  sdk("p2", false, client.Permits(1, all)),
		"try to read":   sdk("r1", true, client.As(client.Read)),
		"wait to read":  sdk("r2", false, client.As(client.Read)),
		"unary permits": once("p3", lockdv1.LockKind_LOCK_KIND_SEMAPHORE, 0),
		"unary reader":  once("r3", lockdv1.LockKind_LOCK_KIND_READ, 0),
		"unary waiting": once("p4", lockdv1.LockKind_LOCK_KIND_SEMAPHORE, time.Minute),
		"several": func(i int) error {
			_, err := c.TryLockAll(t.Context(), []client.Item{
				{Name: "r4", Kind: client.Read}, {Name: fmt.Sprint("own", i)}, {Name: "r5", Kind: client.Read},
			})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			if n := together(t, f); n != all {
				t.Errorf("%d of %d are granted", n, all)
			}
		})
	}
}
