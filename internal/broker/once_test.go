package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

func (w *world) once(req request.Once) (broker.OnceLease, *session.NotGranted, error) {
	w.t.Helper()
	req.Kind = lock.Exclusive
	if req.Lease == 0 {
		req.Lease = time.Minute
	}
	return w.b.AcquireOnce(w.t.Context(), req)
}

func (w *world) mustOnce(req request.Once) broker.OnceLease {
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
		l := w.mustOnce(request.Once{Name: "job", Lease: time.Minute})
		if l.ValidFor <= 50*time.Second || l.Fence == 0 {
			t.Errorf("got %+v", l)
		}
		longer, err := other.b.ExtendOnce(request.ExtendOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: l.LeaseID,
			Lease: time.Hour,
		})
		if err != nil || longer.ValidFor < 50*time.Minute || longer.Fence != l.Fence {
			t.Errorf("extend: got %+v, %v", longer, err)
		}
		if _, err := other.b.ReleaseOnce(request.ReleaseOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: l.LeaseID,
		}); err != nil {
			t.Errorf("release: %v", err)
		}
		w.free("job")
		if _, err := w.b.ReleaseOnce(request.ReleaseOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: l.LeaseID,
		}); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("second release: got %v, want ErrNotHeld", err)
		}
		if _, err := w.b.ExtendOnce(request.ExtendOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: l.LeaseID,
			Lease: time.Hour,
		}); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("extend after release: got %v, want ErrNotHeld", err)
		}
	})
}

func TestUnaryLeaseIDStaysSecret(t *testing.T) {
	inWorld(t, func(w *world) {
		l := w.mustOnce(request.Once{Name: "job"})
		if st := w.look("job"); strings.Contains(string(st.Owner), l.LeaseID) {
			t.Errorf("the lease id %q stands in the owner %q", l.LeaseID, st.Owner)
		}
		_, refused, _ := w.once(request.Once{Name: "job"})
		if refused == nil || !errors.Is(refused.Cause, lock.ErrHeld) || strings.Contains(string(refused.HeldBy), l.LeaseID) {
			t.Errorf("got %+v, want held, without the lease id", refused)
		}
		if _, err := w.b.ReleaseOnce(request.ReleaseOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: strings.Repeat("x", 26),
		}); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("release with another id: got %v", err)
		}
		if _, err := w.b.ReleaseOnce(request.ReleaseOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: "short",
		}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("release with a bad id: got %v", err)
		}
	})
}

func TestUnaryAcquireRepeatedWithItsIDGetsTheSameLease(t *testing.T) {
	inWorld(t, func(w *world) {
		id := strings.Repeat("a1_-", 8)
		first := w.mustOnce(request.Once{Name: "job", LeaseID: id})
		again := w.mustOnce(request.Once{Name: "job", LeaseID: id})
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
			lease = w.mustOnce(request.Once{Name: "job", Wait: new(time.Minute)})
		}()
		synctest.Wait()
		c.release(g.Hold)
		<-done
		if lease.Fence <= g.Hold.Fence {
			t.Errorf("got fence %d after %d", lease.Fence, g.Hold.Fence)
		}
		c.queue("job")
		if _, err := w.b.ReleaseOnce(request.ReleaseOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: lease.LeaseID,
		}); err != nil {
			t.Fatal(err)
		}
		one[session.Granted](c)
	})
}

func TestUnaryCallerThatLeavesKeepsNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", slow(time.Second))
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second/2)
		defer cancel()
		_, refused, err := w.b.AcquireOnce(ctx, request.Once{Name: "job", Kind: lock.Exclusive, Lease: time.Hour})
		if err != nil || refused == nil || !errors.Is(refused.Cause, session.ErrCancelled) {
			t.Fatalf("got %v, %v, want cancelled", refused, err)
		}
		time.Sleep(3 * time.Second)
		w.free("job")
	})
}

func TestUnaryAcquireRepeatedWithItsIDDoesNotWaitForItself(t *testing.T) {
	inWorld(t, func(w *world) {
		id := strings.Repeat("a1_-", 8)
		first := w.mustOnce(request.Once{Name: "job", LeaseID: id})
		w.open().queue("job")
		again := w.mustOnce(request.Once{Name: "job", LeaseID: id})
		if again.Fence != first.Fence {
			t.Errorf("got fence %d, want %d", again.Fence, first.Fence)
		}
	})
}

// TestRepeatedUnaryFairAcquireHasAPlace has a caller ask again with the same lease id before its first call ends.
func TestRepeatedUnaryFairAcquireHasAPlace(t *testing.T) {
	inWorld(t, func(w *world) {
		far := w.replica()
		w.alive().takeKind("job", lock.Fair)
		far.alive().queueKind("job", lock.Fair)
		var calls sync.WaitGroup
		for i := range 2 {
			calls.Go(func() {
				wait := time.Duration(i+1) * 10 * time.Second
				_, _, _ = far.b.AcquireOnce(context.Background(), request.Once{
					Name: "job", Kind: lock.Fair, Wait: &wait, Lease: time.Second, LeaseID: strings.Repeat("a1_-", 8),
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

// answer is what a unary call was answered, and when.
type answer struct {
	lease   broker.OnceLease
	refused *session.NotGranted
	err     error
	after   time.Duration
}

// ask makes a unary call in the background.
func (w *world) ask(req request.Once) <-chan answer {
	answers, start := make(chan answer, 1), time.Now()
	if req.Lease == 0 {
		req.Lease = time.Hour
	}
	go func() {
		l, refused, err := w.b.AcquireOnce(context.Background(), req)
		answers <- answer{l, refused, err, time.Since(start)}
	}()
	return answers
}

const ownID = "a1_-a1_-a1_-a1_-a1_-a1_-"

// TestUnaryNoIsNeverTheEndOfAnAttemptThatTakesTheLock has the store grant a lock 400 ms late, when the wait of a caller
// with its own lease id is over. Whatever it is told, the lock is not left behind by one that was told "no".
func TestUnaryNoIsNeverTheEndOfAnAttemptThatTakesTheLock(t *testing.T) {
	for _, k := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Write, lock.Read, lock.Semaphore} {
		t.Run(k.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				there := w.replica()
				holder := there.alive()
				req := of("job", k)
				req.Permits = req.Limit
				if k == lock.Read {
					req.Kind = lock.Write
				}
				g := holder.takeAs(req)
				answers := w.ask(request.Once{
					Name: "job", Kind: k, Limit: req.Limit, Permits: req.Permits, LeaseID: ownID, Wait: new(3 * time.Second),
				})
				time.Sleep(2900 * time.Millisecond)
				synctest.Wait()
				w.store.on("Acquire", slow(400*time.Millisecond))
				holder.release(g.Hold)
				a := <-answers
				time.Sleep(time.Minute)
				held := w.look("job").Held
				switch {
				case a.after > 5*time.Second:
					t.Errorf("answered after %v", a.after)
				case a.refused != nil && held:
					t.Errorf("told %v, and the lock is held", a.refused.Cause)
				case a.err == nil && a.refused == nil && !held:
					t.Error("told that it is granted, and the lock is free")
				}
			})
		})
	}
}

// TestUnaryCallerThatIsToldUnknownFindsItsLease has the store answer long after the wait: the caller repeats its
// request, and gets what the first one took.
func TestUnaryCallerThatIsToldUnknownFindsItsLease(t *testing.T) {
	inWorld(t, func(w *world) {
		holder := w.replica().alive()
		g := holder.take("job")
		req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: ownID, Wait: new(3 * time.Second)}
		answers := w.ask(req)
		time.Sleep(2900 * time.Millisecond)
		w.store.on("Acquire", slow(4*time.Second))
		holder.release(g.Hold)
		if a := <-answers; !errors.Is(a.err, lock.ErrOutcomeUnknown) || a.after != 4500*time.Millisecond {
			t.Errorf("got %+v, want an unknown outcome after 4.5 s", a)
		}
		w.store.onCall("Acquire", nil)
		first := w.look("job")
		again := <-w.ask(req)
		if again.err != nil || again.lease.Fence != first.Fence || !first.Held {
			t.Errorf("got %+v, want the lease of the first call, %+v", again, first)
		}
		time.Sleep(time.Minute)
		if st := w.look("job"); st.Fence != first.Fence || !st.Held {
			t.Errorf("got %+v, want it held still", st)
		}
		if _, err := w.b.ReleaseOnce(request.ReleaseOnce{
			Name: "job", Kind: lock.Exclusive, LeaseID: ownID,
		}); err != nil {
			t.Error(err)
		}
		w.free("job")
	})
}

// TestUnaryHolderIsNotToldNoByAReplicaThatHasLostTheStore has the holder of a lease repeat its request where others
// wait and the store does not answer.
func TestUnaryHolderIsNotToldNoByAReplicaThatHasLostTheStore(t *testing.T) {
	for _, down := range []error{lock.ErrUnavailable, lock.ErrOutcomeUnknown} {
		for _, wait := range []time.Duration{0, time.Second} {
			t.Run(fmt.Sprint(down, " ", wait), func(t *testing.T) {
				inWorld(t, func(w *world) {
					far, store := w.severable()
					first := w.mustOnce(request.Once{Name: "job", LeaseID: ownID, Lease: time.Hour})
					far.alive().queue("job")
					store.setDown(down)
					req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: ownID, Wait: &wait}
					if a := <-far.ask(req); !errors.Is(a.err, down) {
						t.Errorf("got %+v, want %v", a, down)
					}
					store.setDown(nil)
					if a := <-far.ask(req); a.err != nil || a.lease.Fence != first.Fence {
						t.Errorf("got %+v, want the lease with fence %d", a, first.Fence)
					}
				})
			})
		}
	}
}

// TestUnaryCallerThatLeavesAndAsksAgainGetsItsLease has a caller leave while the store grants its lock, and ask again
// behind others: it must neither wait for itself nor be told that it has nothing.
func TestUnaryCallerThatLeavesAndAsksAgainGetsItsLease(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.store.on("Acquire", late(time.Second))
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				defer cancel()
				req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: ownID, Lease: time.Hour}
				go func() { _, _, _ = w.b.AcquireOnce(ctx, req) }()
				synctest.Wait()
				w.alive().queue("job") // behind the first one
				time.Sleep(500 * time.Millisecond)
				req.Wait = &wait
				a := <-w.ask(req)
				if wait == 0 && !errors.Is(a.err, lock.ErrOutcomeUnknown) {
					t.Errorf("got %+v, want an unknown outcome", a)
				}
				if st := w.look("job"); wait > 0 &&
					(a.err != nil || a.refused != nil || a.lease.Fence != st.Fence || a.after > 3*time.Second) {
					t.Errorf("got %+v, want the lease of the first call: %+v", a, st)
				}
			})
		})
	}
}

// A unary release that is not answered at first is told as one if the lease is known to have lasted. Else it may have
// ended by itself, and others may have had the name.
func TestUnaryReleaseIsToldOnlyIfTheLeaseLasted(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.replica()
		for name, row := range map[string]struct {
			at   *world
			wait time.Duration
			want error
		}{
			"here":                  {w, 0, nil},
			"here, when it is over": {w, time.Minute, errUnknown},
			"at another replica":    {other, 0, errUnknown},
		} {
			l := w.mustOnce(request.Once{Name: "job", Lease: time.Minute})
			time.Sleep(row.wait)
			row.at.store.on("Release", lose(1))
			if _, err := row.at.b.ReleaseOnce(request.ReleaseOnce{
				Name: "job", Kind: lock.Exclusive, LeaseID: l.LeaseID,
			}); !errors.Is(err, row.want) {
				t.Errorf("%s: got %v, want %v", name, err, row.want)
			}
			w.free("job")
		}
	})
}

// A grant whose time is over when it is answered is none. What its caller cannot ask for again is given back.
func TestUnaryGrantWhoseTimeIsOverIsNotTold(t *testing.T) {
	for _, own := range []bool{false, true} {
		inWorld(t, func(w *world) {
			req := request.Once{Name: "job", Kind: lock.Exclusive, Lease: time.Minute, LeaseID: ownID}
			w.mustOnce(req)
			if err := w.b.AnswerLate(req, own); !errors.Is(err, errUnknown) {
				t.Errorf("its own id: %v: got %v, want an unknown outcome", own, err)
			}
			time.Sleep(time.Second)
			if held := w.look("job").Held; held != own {
				t.Errorf("its own id: %v: the lock is held: %v", own, held)
			}
		})
	}
}
