package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

const (
	connections = 10
	streams     = 100
	waiters     = 1000
)

func TestAThousandWaitersAreGrantedInTheirOrder(t *testing.T) {
	rs := redistest.Start(t)
	d := startLockd(t, rs.Addr, "LOCKD_OPS_PPROF=true")
	warmUp(t, d)
	goroutines, heap := d.Metric("go_goroutines"), d.Heap()

	t.Run("order", func(t *testing.T) { // its connections are closed at its end
		conn := d.Connect(t)
		blocker := open(t, conn, &lockdv1.Open{})
		hold := blocker.take(1, "hot")
		q := arrive(t, d)
		calls := rs.ScriptCalls()
		began := time.Now()
		blocker.send(release(2, hold))
		fences := q.drain()
		took := time.Since(began)
		calls = rs.ScriptCalls() - calls - 1 // the blocker's
		if !slices.IsSorted(fences) || len(slices.Compact(fences)) != waiters {
			t.Errorf("the fences do not rise in the order of arrival: %v", fences)
		}
		t.Logf("%d grants in %v by %d scripts", len(fences), took, calls)
		records := int(streams * took / (9 * time.Second)) // each session's is prolonged once in 0.3 of its TTL of 30 s
		if calls > waiters*11/10+records {
			t.Errorf("%d scripts for %d grants and %d records, want 1.1 for each grant at most", calls, waiters, records)
		}
	})

	harness.Until(t, "the goroutines are back", func() bool { return d.Metric("go_goroutines") <= goroutines })
	const spare = 4 << 20
	harness.Until(t, "their memory is free", func() bool {
		got := d.Heap()
		t.Logf("goroutines %v before, %v after; heap %.1f MB before, %.1f MB after",
			goroutines, d.Metric("go_goroutines"), heap/(1<<20), got/(1<<20))
		return got <= heap+spare
	})
}

// warmUp has done once what leaves something behind that is used again.
func warmUp(t *testing.T, d *harness.Lockd) {
	t.Helper()
	t.Run("warm up", func(t *testing.T) {
		conn := d.Connect(t)
		c, other := open(t, conn, &lockdv1.Open{}), open(t, conn, &lockdv1.Open{})
		hold := c.take(1, "warm")
		other.send(acquire(1, &lockdv1.Acquire{Name: "warm"}))
		if other.recv().GetQueued() == nil {
			t.Fatal("want Queued")
		}
		c.send(release(2, hold))
		if other.answer(1).GetGranted() == nil {
			t.Fatal("want the lock")
		}
	})
	harness.Until(t, "no session is left", func() bool { return d.Metric("lockd_sessions") == 0 })
}

// crowd are many waiters of one name, in the order of their arrival: waiter i is request i/streams+1 of stream
// i%streams.
type crowd struct {
	t       *testing.T
	streams []*stream
}

// arrive lets each wait before the next one comes.
func arrive(t *testing.T, d *harness.Lockd) *crowd {
	t.Helper()
	q := &crowd{t: t}
	for range connections {
		conn := d.Connect(t)
		for range streams / connections {
			q.streams = append(q.streams, open(t, conn, &lockdv1.Open{}))
		}
	}
	for i := range waiters {
		c := q.streams[i%streams]
		c.send(acquire(uint64(i/streams+1), &lockdv1.Acquire{Name: "hot"}))
		if m := c.recv().GetQueued(); m == nil || int(m.GetPosition()) != i {
			t.Fatalf("waiter %d got %v", i, m)
		}
	}
	return q
}

// drain has each waiter hold the lock for a millisecond and returns their fences.
func (q *crowd) drain() []uint64 {
	fences := make([]uint64, waiters)
	var wg sync.WaitGroup
	for s, c := range q.streams {
		wg.Go(func() {
			for range 2 * waiters / streams { // a grant and a release for each
				m, err := c.Recv()
				if err != nil {
					q.t.Error(err)
					return
				}
				if m.GetGranted() == nil {
					if m.GetReleased() == nil {
						q.t.Errorf("got %v", m)
					}
					continue
				}
				hold := m.GetGranted().GetHolds()[0]
				fences[int(m.GetRequestId()-1)*streams+s] = hold.GetFence()
				time.Sleep(time.Millisecond)
				if err := c.Send(release(m.GetRequestId()+1000, hold)); err != nil {
					q.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return fences
}
