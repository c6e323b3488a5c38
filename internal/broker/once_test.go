package broker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
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
		if _, err := w.b.ReleaseOnce(request.Once{
			Name: "job", Kind: lock.Exclusive, LeaseID: strings.Repeat("x", 26),
		}); !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("release with another id: got %v", err)
		}
		if _, err := w.b.ReleaseOnce(request.Once{
			Name: "job", Kind: lock.Exclusive, LeaseID: "short",
		}); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("release with a bad id: got %v", err)
		}
	})
}

const ownID = "a1_-a1_-a1_-a1_-a1_-a1_-"

// A grant whose time is over when it is answered is none. What its caller cannot ask for again is undone.
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

// handsOverUnheard hands a name that c holds to a unary caller that waits, and loses the answer. The store answers a
// second later. The channel gets what the caller is told.
func handsOverUnheard(ctx context.Context, a *world, store *faults, c *client, req request.Once) (told chan error) {
	hold := c.take(req.Name).Hold
	told = make(chan error, 1)
	go func() {
		_, refused, err := a.b.AcquireOnce(ctx, req)
		if refused != nil {
			err = refused.Cause
		}
		told <- err
	}()
	time.Sleep(time.Second)
	lost := false
	store.on("Release", func(next func() error) error {
		err := next()
		if lost {
			return err
		}
		lost = true
		time.Sleep(time.Second)
		return lock.ErrOutcomeUnknown
	})
	c.Release(c.id(), hold)
	time.Sleep(time.Second / 2)
	return told
}

// The caller has left, repeats its request at another replica, and is told there that it has the name. What the first
// replica settles must not take that away.
func TestWhatACallerWasHandedAndToldElsewhereIsNotTakenAway(t *testing.T) {
	inWorld(t, func(w *world) {
		a, store := w.severable()
		c := a.alive()
		ctx, leave := context.WithCancel(w.t.Context())
		req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: ownID, Lease: time.Hour, Wait: new(time.Minute)}
		told := handsOverUnheard(ctx, a, store, c, req)
		leave()
		if err := <-told; !isError(err, session.ErrCancelled) {
			t.Fatalf("got %v, want cancelled", err)
		}
		lease := w.mustOnce(req)
		time.Sleep(30 * time.Second)
		one[session.Released](c)
		if st := w.look("job"); !st.Held || st.Fence != lease.Fence {
			t.Fatalf("got %+v, want it held with fence %d", st, lease.Fence)
		}
	})
}

// The wait of the caller ends before it is known that the name was handed to it. It is not told that it has nothing if
// it can ask for what it has; else that is undone.
func TestACallerThatMayHaveBeenHandedTheNameIsNotToldNo(t *testing.T) {
	for id, want := range map[string]error{ownID: lock.ErrOutcomeUnknown, "": session.ErrTimedOut} {
		inWorld(t, func(w *world) {
			c := w.alive()
			req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: id, Lease: time.Hour, Wait: new(time.Second * 6 / 5)}
			if err := <-handsOverUnheard(w.t.Context(), w, w.store, c, req); !isError(err, want) {
				t.Errorf("%q: got %v, want %v", id, err, want)
			}
			time.Sleep(30 * time.Second)
			one[session.Released](c)
			if st := w.look("job"); st.Held != (id != "") {
				t.Errorf("%q: got %+v", id, st)
			}
		})
	}
}
