package broker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
)

func (w *world) once(req broker.OnceRequest) (broker.OnceLease, *broker.NotGranted, error) {
	w.t.Helper()
	req.Kind = broker.Exclusive
	if req.Lease == 0 {
		req.Lease = time.Minute
	}
	return w.b.AcquireOnce(w.t.Context(), req)
}

func (w *world) mustOnce(req broker.OnceRequest) broker.OnceLease {
	w.t.Helper()
	l, refused, err := w.once(req)
	if err != nil || refused != nil {
		w.t.Fatalf("got %v, %v, want a lease", refused, err)
	}
	return l
}

func TestUnaryLeaseIsSharedByAllReplicas(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.replica()
		l := w.mustOnce(broker.OnceRequest{Name: "job", Lease: time.Minute})
		if l.ValidFor <= 50*time.Second || l.Fence == 0 {
			t.Errorf("got %+v", l)
		}
		longer, err := other.b.ExtendOnce("job", broker.Exclusive, l.LeaseID, time.Hour)
		if err != nil || longer.ValidFor < 50*time.Minute || longer.Fence != l.Fence {
			t.Errorf("extend: got %+v, %v", longer, err)
		}
		if err := other.b.ReleaseOnce("job", broker.Exclusive, l.LeaseID); err != nil {
			t.Errorf("release: %v", err)
		}
		w.free("job")
		if err := w.b.ReleaseOnce("job", broker.Exclusive, l.LeaseID); !errors.Is(err, broker.ErrNotHeld) {
			t.Errorf("second release: got %v, want ErrNotHeld", err)
		}
		if _, err := w.b.ExtendOnce("job", broker.Exclusive, l.LeaseID, time.Hour); !errors.Is(err, broker.ErrNotHeld) {
			t.Errorf("extend after release: got %v, want ErrNotHeld", err)
		}
	})
}

func TestUnaryLeaseIDStaysSecret(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.mustOnce(broker.OnceRequest{Name: "job"})
		if st := w.look("job"); strings.Contains(string(st.Owner), l.LeaseID) {
			t.Errorf("the lease id %q stands in the owner %q", l.LeaseID, st.Owner)
		}
		_, refused, _ := w.once(broker.OnceRequest{Name: "job"})
		if refused == nil || !errors.Is(refused.Cause, broker.ErrHeld) || strings.Contains(string(refused.HeldBy), l.LeaseID) {
			t.Errorf("got %+v, want held, without the lease id", refused)
		}
		if err := w.b.ReleaseOnce("job", broker.Exclusive, strings.Repeat("x", 26)); !errors.Is(err, broker.ErrNotHeld) {
			t.Errorf("release with another id: got %v", err)
		}
		if err := w.b.ReleaseOnce("job", broker.Exclusive, "short"); !errors.Is(err, broker.ErrInvalid) {
			t.Errorf("release with a bad id: got %v", err)
		}
	})
}

func TestUnaryAcquireRepeatedWithItsIDGetsTheSameLease(t *testing.T) {
	inWorld(t, func(w *world) {
		id := strings.Repeat("a1_-", 8)
		first := w.mustOnce(broker.OnceRequest{Name: "job", LeaseID: id})
		again := w.mustOnce(broker.OnceRequest{Name: "job", LeaseID: id})
		if again.Fence != first.Fence || w.look("job").Count != 1 {
			t.Errorf("got fence %d, count %d; want %d, 1", again.Fence, w.look("job").Count, first.Fence)
		}
	})
}

func TestUnaryWaiterGetsALockOfASession(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		g := c.take("job")
		var lease broker.OnceLease
		done := make(chan struct{})
		go func() {
			defer close(done)
			lease = w.mustOnce(broker.OnceRequest{Name: "job", Wait: new(time.Minute)})
		}()
		synctest.Wait()
		c.release(g.Hold)
		<-done
		if lease.Fence <= g.Hold.Fence {
			t.Errorf("got fence %d after %d", lease.Fence, g.Hold.Fence)
		}
		c.queue("job")
		if err := w.b.ReleaseOnce("job", broker.Exclusive, lease.LeaseID); err != nil {
			t.Fatal(err)
		}
		one[broker.Granted](c)
	})
}

func TestUnaryCallerThatLeavesKeepsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.onAcquire(func(next func() (broker.Grant, error)) (broker.Grant, error) {
			g, err := next()
			time.Sleep(time.Second)
			return g, err
		})
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second/2)
		defer cancel()
		_, refused, err := w.b.AcquireOnce(ctx, broker.OnceRequest{Name: "job", Kind: broker.Exclusive, Lease: time.Hour})
		if err != nil || refused == nil || !errors.Is(refused.Cause, broker.ErrCancelled) {
			t.Fatalf("got %v, %v, want cancelled", refused, err)
		}
		time.Sleep(3 * time.Second)
		w.free("job")
	})
}

func TestUnaryAcquireRepeatedWithItsIDDoesNotWaitForItself(t *testing.T) {
	inWorld(t, func(w *world) {
		id := strings.Repeat("a1_-", 8)
		first := w.mustOnce(broker.OnceRequest{Name: "job", LeaseID: id})
		w.open().queue("job")
		again := w.mustOnce(broker.OnceRequest{Name: "job", LeaseID: id})
		if again.Fence != first.Fence {
			t.Errorf("got fence %d, want %d", again.Fence, first.Fence)
		}
	})
}

// TestRepeatedUnaryFairAcquireHasAPlace has a caller ask again with the same lease id before its first call ends.
func TestRepeatedUnaryFairAcquireHasAPlace(t *testing.T) {
	inWorld(t, func(w *world) {
		far := w.replica()
		w.alive().takeKind("job", broker.Fair)
		far.alive().queueKind("job", broker.Fair)
		var calls sync.WaitGroup
		for i := range 2 {
			calls.Go(func() {
				wait := time.Duration(i+1) * 10 * time.Second
				_, _, _ = far.b.AcquireOnce(context.Background(), broker.OnceRequest{
					Name: "job", Kind: broker.Fair, Wait: &wait, Lease: time.Second, LeaseID: strings.Repeat("a1_-", 8),
				})
			})
			time.Sleep(time.Second)
		}
		time.Sleep(12 * time.Second) // the first one has ended
		if q, err := w.store.Queue(t.Context(), "job", 0, 10); err != nil || len(q) != 2 {
			t.Errorf("%q have places, %v; want two", q, err)
		}
		calls.Wait()
	})
}
