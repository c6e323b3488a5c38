package broker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// A grant whose time is over when the store answers is told to nobody. What it took is undone: it was carried out late,
// and its lease goes on in the store.

const (
	brief   = 200 * time.Millisecond
	belated = 250 * time.Millisecond
)

// lateOnce is a hook with which the first call is carried out late, and answered then.
func lateOnce() func(func() error) error {
	was := false
	return func(next func() error) error {
		if !was {
			was = true
			time.Sleep(belated)
		}
		return next()
	}
}

// isFreeSoon checks that a name is free long before the lease ends that was carried out late.
func (w *world) isFreeSoon(names ...string) {
	w.t.Helper()
	time.Sleep(brief / 10)
	for _, name := range names {
		w.free(name)
	}
}

func TestATryThatIsGrantedTooLateLeavesNothing(t *testing.T) {
	for _, k := range lock.Kinds() {
		inWorld(t, func(w *world) {
			w.store.on("Acquire", lateOnce())
			c := w.open()
			req := of("job", k)
			req.Lease = new(brief)
			c.try(req)
			time.Sleep(belated)
			c.failed(errUnknown)
			w.isFreeSoon("job")
		})
	}
}

func TestSeveralNamesThatAreGrantedTooLateAreFree(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("AcquireAll", lateOnce())
		c := w.open()
		req := request.Acquire{Name: "a", More: []request.Item{{Name: "b", Kind: lock.Exclusive}}, List: request.Names}
		req.Lease = new(brief)
		c.try(req)
		time.Sleep(belated)
		c.failed(errUnknown)
		w.isFreeSoon("a", "b")
	})
}

// The client has left before the grant comes too late.
func TestACancelledRequestThatIsGrantedTooLateLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		w.store.on("Acquire", lateOnce())
		c := w.open()
		id := c.acquire(request.Acquire{Name: "job", Lease: new(brief)})
		synctest.Wait()
		c.Cancel(c.id(), id)
		time.Sleep(belated)
		w.isFreeSoon("job")
	})
}

// A name is handed over too late to a waiter whose wait is over by then.
func TestANameThatIsHandedOverTooLateIsFree(t *testing.T) {
	inWorld(t, func(w *world) {
		c, d := w.open(), w.open()
		hold := c.take("job").Hold
		wait := belated / 2
		d.acquire(request.Acquire{Name: "job", Lease: new(brief), Wait: &wait})
		d.events()
		w.store.on("Release", lateOnce())
		c.Release(c.id(), hold)
		time.Sleep(belated)
		if n := one[session.NotGranted](d); !isError(n.Cause, session.ErrTimedOut) {
			t.Errorf("got %+v, want that the wait ended", n)
		}
		w.isFreeSoon("job")
	})
}

// A unary caller that chose its lease id keeps what it may have been given, and is not told "no".
func TestANameThatIsHandedOverTooLateToAUnaryCaller(t *testing.T) {
	for id, want := range map[string]error{ownID: errUnknown, "": session.ErrTimedOut} {
		inWorld(t, func(w *world) {
			c := w.open()
			hold := c.take("job").Hold
			told := make(chan error, 1)
			go func() {
				_, refused, err := w.once(request.Once{
					Name: "job", Kind: lock.Exclusive, Lease: brief, Wait: new(belated / 2), LeaseID: id,
				})
				if refused != nil {
					err = refused.Cause
				}
				told <- err
			}()
			synctest.Wait()
			w.store.on("Release", lateOnce())
			c.Release(c.id(), hold)
			if err := <-told; !isError(err, want) {
				t.Errorf("with lease id %q: got %v, want %v", id, err, want)
			}
			time.Sleep(brief / 10)
			if held := w.look("job").Held; held != (id != "") {
				t.Errorf("with lease id %q: held: %v", id, held)
			}
		})
	}
}
