package e2e

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// TestSilentReadersFillNoMemory has clients that ask as fast as they can and read nothing. docs/limits.md tells how
// much each makes lockd keep.
func TestSilentReadersFillNoMemory(t *testing.T) {
	t.Parallel()
	readers := tier.Pick(20, 100)
	bin, err := harness.Build("lockd") // as it is shipped: the race detector takes memory of its own
	harness.Must(t, err)
	d := harness.StartLockd(t, bin, redistest.Start(t).Addr, "LOCKD_OPS_PPROF=true", "LOCKD_SESSION_TTL=10m")
	neighbour := d.Dial(t)
	mustLock(t, neighbour, "held")
	heap := d.Heap()
	var sent atomic.Int64
	var all sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for range readers {
		s, err := lockdv1.NewSessionServiceClient(d.Connect(t)).Session(ctx)
		harness.Must(t, err)
		_ = s.Send(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Open{Open: &lockdv1.Open{}}})
		all.Go(func() {
			for id := uint64(1); s.Send(manyRequests(&id)) == nil; {
				sent.Add(1)
			}
		})
	}
	harness.Until(t, "nobody can send any more", func() bool {
		before := sent.Load()
		time.Sleep(500 * time.Millisecond)
		return before > 0 && sent.Load() == before
	})
	grown := (d.Heap() - heap) / (1 << 20)
	t.Logf("%d silent readers sent %d messages; the heap has grown by %.0f MiB", readers, sent.Load(), grown)
	if grown > float64(readers) {
		t.Errorf("the heap has grown by %.0f MiB, want %d at most", grown, readers)
	}
	mustUnlock(t, mustLock(t, neighbour, "own"))
	leave()
	all.Wait()
	harness.Until(t, "they are gone", func() bool { return d.Metric("lockd_sessions") == 1 })
	harness.Until(t, "their memory is free", func() bool { return (d.Heap()-heap)/(1<<20) < float64(readers)/4 })
}

// manyRequests are answered at once, some with much text.
func manyRequests(id *uint64) *lockdv1.SessionRequest {
	try := func(names ...string) *lockdv1.SessionRequest {
		return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Acquire{
			Acquire: &lockdv1.Acquire{Names: names, Wait: &durationpb.Duration{}},
		}}
	}
	batch := &lockdv1.RequestBatch{}
	for range 16 {
		for _, r := range []*lockdv1.SessionRequest{
			try("held"), try(strings.Repeat("x", 1000)), try(strings.Repeat("x", 400), "held"),
			{Message: &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{}}},
		} {
			r.RequestId = *id
			*id++
			batch.Requests = append(batch.Requests, r)
		}
	}
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Batch{Batch: batch}}
}
