package broker_test

import (
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

// asHolder gives a request a named holder.
func asHolder(req request.Acquire) request.Acquire {
	req.Holder = "h"
	return req
}

// TestHandoffIsNotTriedForAtTheSameTime covers a release that is slow, while the lease ended and others had the name.
func TestHandoffIsNotTriedForAtTheSameTime(t *testing.T) {
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
