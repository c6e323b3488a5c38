package e2e

import (
	"fmt"
	"os"
	"strconv"
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

const (
	silentReaders = 100
	// silentHeap and silentResident bound what they may make lockd take. docs/limits.md tells the first for each.
	silentHeap     = silentReaders * (1 << 20)
	silentResident = 400 << 20
)

// TestSilentReadersFillNoMemory has clients that ask as fast as they can and read nothing.
func TestSilentReadersFillNoMemory(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	rs := redistest.Start(t)
	bin, err := harness.Build("lockd") // as it is shipped: the race detector takes memory of its own
	if err != nil {
		t.Fatal(err)
	}
	d := harness.StartLockd(t, bin, rs.Addr, "LOCKD_OPS_PPROF=true")
	neighbour := d.Dial(t)
	mustLock(t, neighbour, "held")
	heap, rss := d.Heap(), resident(t, d.PID())
	f := flood(t, d)
	f.awaitStandstill(t)
	grown, swollen := d.Heap()-heap, resident(t, d.PID())-rss
	t.Logf("%d silent readers sent %d requests; the heap has grown by %.0f MiB, the process by %d MiB",
		silentReaders, f.sent.Load(), grown/(1<<20), swollen>>20)
	if grown > silentHeap {
		t.Errorf("the heap has grown by %.0f MiB, want %d at most", grown/(1<<20), silentHeap>>20)
	}
	if swollen > silentResident {
		t.Errorf("the process has grown by %d MiB, want %d at most", swollen>>20, silentResident>>20)
	}
	for i := range 200 {
		mustUnlock(t, mustLock(t, neighbour, fmt.Sprint("own", i)))
	}
	f.stop()
	harness.Until(t, "they are gone", func() bool { return d.Metric("lockd_sessions") == 1 })
	harness.Until(t, "their memory is free", func() bool { return d.Heap()-heap < silentHeap/4 })
}

// resident is the memory of a process.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(procFile(pid, "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// silent are clients that read nothing.
type silent struct {
	sent    atomic.Int64
	streams []*stream
	wg      sync.WaitGroup
}

func flood(t *testing.T, d *harness.Lockd) *silent {
	t.Helper()
	f := &silent{}
	for range silentReaders {
		c := raw(t, d.Connect(t))
		c.send(openWith(&lockdv1.Open{}))
		f.streams = append(f.streams, c)
		f.wg.Go(func() {
			for id := uint64(1); c.Send(manyRequests(&id)) == nil; {
				f.sent.Add(manyAtOnce)
			}
		})
	}
	t.Cleanup(f.stop)
	return f
}

const manyAtOnce = 64

// manyRequests are answered at once, some with much text.
func manyRequests(id *uint64) *lockdv1.SessionRequest {
	batch := &lockdv1.RequestBatch{}
	for i := range manyAtOnce {
		r := acquire(*id, &lockdv1.Acquire{Name: "held", Wait: &durationpb.Duration{}})
		switch i % 4 {
		case 1:
			r = acquire(*id, &lockdv1.Acquire{Name: strings.Repeat("x", 1000)})
		case 2:
			r = acquire(*id, &lockdv1.Acquire{Names: []string{strings.Repeat("x", 400), "held"}, Wait: &durationpb.Duration{}})
		case 3:
			r = &lockdv1.SessionRequest{
				RequestId: *id,
				Message:   &lockdv1.SessionRequest_Heartbeat{Heartbeat: &lockdv1.Heartbeat{}},
			}
		}
		batch.Requests = append(batch.Requests, r)
		*id++
	}
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Batch{Batch: batch}}
}

// awaitStandstill waits until nobody can send any more, or twenty seconds.
func (f *silent) awaitStandstill(t *testing.T) {
	last := int64(-1)
	for range 40 {
		time.Sleep(500 * time.Millisecond)
		now := f.sent.Load()
		if now > 0 && now == last {
			return
		}
		last = now
	}
	t.Errorf("the silent readers still send, %d requests so far", last)
}

func (f *silent) stop() {
	for _, c := range f.streams {
		c.cancel()
	}
	f.wg.Wait()
}
