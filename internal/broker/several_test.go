package broker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// allOf is a request for several names.
func allOf(k lock.Kind, names ...string) request.Acquire {
	req := of(names[0], k)
	for _, n := range names[1:] {
		o := of(n, k)
		req.More = append(req.More, request.Item{Name: n, Kind: k, Permits: o.Permits, Limit: o.Limit})
	}
	return req
}

// asHolder makes a request that of a named holder.
func asHolder(req request.Acquire) request.Acquire {
	req.Holder = "h"
	return req
}

// TestHandOverIsNotTriedForAtTheSameTime covers a release that is slow, while the lease ended and others had the name.
func TestHandOverIsNotTriedForAtTheSameTime(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, m := w.alive(), w.alive(), w.alive()
		short := of("job", lock.Exclusive)
		short.Lease = new(2 * time.Second)
		g := a.takeAs(short)
		b.queueAs(request.Acquire{Name: "job", Lease: new(time.Hour)})
		w.store.onCall("Release", func(c call) error {
			if c.arg.(lock.Return).Next != nil {
				time.Sleep(10 * time.Second)
			}
			return c.do()
		})
		time.Sleep(time.Second)
		a.Release(a.id(), g.Hold)
		time.Sleep(1500 * time.Millisecond)
		several := m.takeAs(allOf(lock.Exclusive, "x", "job"))
		m.release(several.More[0])
		time.Sleep(20 * time.Second)
		got := one[session.Granted](b)
		if st := w.look("job"); !st.Held || st.Fence != got.Hold.Fence {
			t.Errorf("got %+v, want it held with fence %d", st, got.Hold.Fence)
		}
	})
}

// TestSeveralTakenLateWhileTheyWaitBehindAnotherAreGranted has an attempt that was not answered take all when nobody
// asks for it: the request waits for its turn. It keeps its owner, so what comes late is its own.
func TestSeveralTakenLateWhileTheyWaitBehindAnotherAreGranted(t *testing.T) {
	inWorld(t, func(w *world) {
		far, store := w.severable()
		other, first, several := w.alive(), far.alive(), far.alive()
		g := other.take("b")
		first.queue("b")
		calls := 0
		store.on("AcquireAll", func(next func() error) error {
			if calls++; calls == 1 {
				go func() { time.Sleep(2500 * time.Millisecond); _ = next() }()
				return errUnknown
			}
			return next()
		})
		req := allOf(lock.Exclusive, "a", "b")
		req.Lease = new(time.Hour)
		id, _ := several.queueAs(req)
		time.Sleep(2400 * time.Millisecond)
		store.on("Acquire", late(time.Second))
		other.release(g.Hold)
		time.Sleep(200 * time.Millisecond)
		want := lock.Owner(fmt.Sprintf("%s:#%d", several.ID(), id))
		if st := w.look("a"); st.Owner != want {
			t.Fatalf("%q holds the name, want %q: the late attempt took nothing, and the test shows nothing", st.Owner, want)
		}
		got := several.grantedWithin(3 * time.Second)
		for _, h := range append(got.More, got.Hold) {
			if st := w.look(h.Name); st.Owner != want || st.Fence != h.Fence {
				t.Errorf("got %+v, want %q held by %q", st, h.Name, want)
			}
			several.release(h)
		}
		first.grantedWithin(3 * time.Second)
	})
}
