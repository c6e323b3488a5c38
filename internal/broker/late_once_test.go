package broker_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// handsOverUnheard has a name that c holds be handed to a unary caller that waits, and the answer to that be lost. The
// store answers a second later. What the caller is told is told to the channel.
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
		wait := time.Minute
		req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: ownID, Lease: time.Hour, Wait: &wait}
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
// it can ask for what it has; else that is given back.
func TestACallerThatMayHaveBeenHandedTheNameIsNotToldNo(t *testing.T) {
	for id, want := range map[string]error{ownID: lock.ErrOutcomeUnknown, "": session.ErrTimedOut} {
		inWorld(t, func(w *world) {
			c := w.alive()
			wait := time.Second + time.Second/5
			req := request.Once{Name: "job", Kind: lock.Exclusive, LeaseID: id, Lease: time.Hour, Wait: &wait}
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
