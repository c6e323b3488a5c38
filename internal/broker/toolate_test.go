package broker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
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

// isFreeSoon checks that names are free long before the lease that was carried out late ends.
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

// The store answers in time, and the answer waits for the mutex of the name until the lease is over. In a bubble time
// stands still meanwhile.
func TestAGrantWhoseTimeIsOverWhenItsTurnComesIsNotTold(t *testing.T) {
	t.Parallel()
	w := start(t, testConfig(), &faults{Store: memstore.New()})
	c, mu := w.open(), w.b.Mutex("job")
	w.store.on("Acquire", func(next func() error) error {
		err := next()
		mu.Lock()
		time.AfterFunc(belated, mu.Unlock)
		return err
	})
	c.try(request.Acquire{Name: "job", Lease: new(brief)})
	<-c.Outbox().Wake()
	for _, e := range c.Outbox().TakeSome(1, 1) {
		if failed, is := e.(session.Failed); !is || !isError(failed.Err, errUnknown) {
			t.Errorf("got %+v, want that nobody knows", e)
		}
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

// waitsAgain grants "job" to a client too late. The client waits on, and the next attempt follows within a second.
func waitsAgain(w *world, k lock.Kind, wait *time.Duration, hook func(func() error) error) (c *client, id uint64) {
	w.t.Helper()
	other := w.replica().open()
	first := of("job", k)
	if k == lock.Read {
		first.Kind = lock.Write
	}
	other.acquire(first)
	hold := one[session.Granted](other).Hold
	c = w.open()
	req := of("job", k)
	req.Lease, req.Wait = new(brief), wait
	id = c.acquire(req)
	one[session.Queued](c)
	w.store.on("Acquire", hook)
	other.release(hold)
	time.Sleep(belated)
	c.none()
	if !w.look("job").Held {
		w.t.Fatal("it was not granted")
	}
	return c, id
}

// Whoever is granted a name too late and waits on has it until it leaves, in whatever way, and no longer.
func TestWhoLeavesAfterAGrantThatCameTooLateLeavesNothing(t *testing.T) {
	forever := new(time.Hour)
	for what, row := range map[string]struct {
		wait  *time.Duration
		hook  func(func() error) error
		leave func(w *world, c *client, id uint64)
	}{
		"cancel":           {forever, lateOnce(), func(_ *world, c *client, id uint64) { c.Cancel(c.id(), id) }},
		"end the session":  {forever, lateOnce(), func(_ *world, c *client, _ uint64) { c.Goodbye() }},
		"stop the replica": {forever, lateOnce(), func(w *world, _ *client, _ uint64) { _ = w.b.Close(w.t.Context()) }},
		"the wait ends": {
			new(belated + time.Millisecond), lateOnce(),
			func(*world, *client, uint64) { time.Sleep(2 * time.Millisecond) },
		},
		"the store is away": {
			new(belated + 20*time.Millisecond), inTurn(lateOnce(), 1, fails(lock.ErrUnavailable, 0)),
			func(*world, *client, uint64) { time.Sleep(25 * time.Millisecond) },
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, id := waitsAgain(w, lock.Exclusive, row.wait, row.hook)
				row.leave(w, c, id)
				w.isFreeSoon("job")
			})
		})
	}
	for _, k := range lock.Kinds() {
		t.Run(k.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, id := waitsAgain(w, k, nil, lateOnce())
				c.Cancel(c.id(), id)
				w.isFreeSoon("job")
			})
		})
	}
}

// inTurn makes the first n calls by one hook and all others by another one.
func inTurn(first func(func() error) error, n int, then func(func() error) error) func(func() error) error {
	return func(next func() error) error {
		if n--; n >= 0 {
			return first(next)
		}
		return then(next)
	}
}

func TestWhoLeavesAfterSeveralNamesCameTooLateLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.replica().open()
		hold := other.take("a").Hold
		c := w.open()
		id := c.acquire(request.Acquire{
			Name: "a", More: []request.Item{{Name: "b", Kind: lock.Exclusive}}, List: request.Names, Lease: new(brief),
		})
		c.events()
		w.store.on("AcquireAll", lateOnce())
		other.release(hold)
		time.Sleep(belated)
		synctest.Wait()
		c.Cancel(c.id(), id)
		w.isFreeSoon("a", "b")
	})
}

// A unary caller without an id of its own waits on, the store is away, and the caller hangs up.
func TestAUnaryCallerThatLeavesAfterAGrantThatCameTooLateLeavesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.replica().open()
		hold := other.take("job").Hold
		ctx, hangUp := context.WithCancel(w.t.Context())
		defer hangUp()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, refused, err := w.b.AcquireOnce(ctx, request.Once{
				Name: "job", Kind: lock.Exclusive, Lease: brief, Wait: new(time.Hour),
			})
			if refused == nil && err == nil {
				t.Error("it was told a grant")
			}
		}()
		synctest.Wait()
		w.store.on("Acquire", inTurn(lateOnce(), 1, fails(lock.ErrUnavailable, 0)))
		other.release(hold)
		time.Sleep(belated + 60*time.Millisecond)
		hangUp()
		<-done
		w.isFreeSoon("job")
	})
}

// Another request of the same holder is granted the name while the first one waits on: it nests there, and what it was
// granted too late is not left beside.
func TestWhatWasGrantedTooLateIsNotKeptBesideTheHoldThatIsNestedIn(t *testing.T) {
	inWorld(t, func(w *world) {
		other := w.replica().open()
		other.acquire(of("job", lock.Write))
		hold := one[session.Granted](other).Hold
		c := w.open()
		c.acquire(request.Acquire{Name: "job", Kind: lock.Read})
		c.acquire(request.Acquire{Name: "job", Kind: lock.Read, Holder: "h", Lease: new(brief)})
		c.acquire(request.Acquire{Name: "job", Kind: lock.Read, Holder: "h"})
		c.events()
		w.store.onCall("Acquire", func(call call) error {
			switch owner := string(call.arg.(lock.Claim).Owner); {
			case strings.HasSuffix(owner, "h#2"):
				time.Sleep(belated)
			case strings.HasSuffix(owner, "h#3"):
				time.Sleep(belated + 20*time.Millisecond)
			}
			return call.do()
		})
		other.release(hold)
		time.Sleep(belated + 20*time.Millisecond)
		for _, e := range c.events() {
			if g, is := e.(session.Granted); is {
				c.Release(c.id(), g.Hold)
			}
		}
		w.isFreeSoon("job")
	})
}

// A grant may be told with little left of its time, and carried out much later than it was asked for.
func TestALostLeaseThatWasGrantedLateIsReleased(t *testing.T) {
	for _, k := range lock.Kinds() {
		t.Run(k.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.store.on("Acquire", lateOnce())
				c := w.open()
				req := of("job", k)
				req.Lease = new(belated + 50*time.Millisecond)
				c.try(req)
				time.Sleep(belated)
				time.Sleep(time.Until(one[session.Granted](c).Validity.Until) + 10*time.Millisecond)
				one[session.Lost](c)
				w.isFreeSoon("job")
			})
		})
	}
}

// What a request of a session may have is released when nobody asks for it any more: it goes on as a read under the
// holder's own write, and is told what it read.
func TestWhatIsReadUnderOnesOwnWriteIsNotTakenByAnEarlierDoubt(t *testing.T) {
	inWorld(t, func(w *world) {
		there, way := w.severable()
		other, c := w.alive(), there.alive()
		job, x := other.takeKind("job", lock.Write).Hold, other.take("x").Hold
		c.acquire(request.Acquire{Name: "job", Kind: lock.Read, Holder: "h"}) // #1
		c.acquire(request.Acquire{
			Name: "x", Kind: lock.Exclusive, Holder: "h", List: request.Names,
			More: []request.Item{{Name: "job", Kind: lock.Write}},
		})
		c.events()
		way.on("Acquire", fails(errUnknown, 0))
		other.release(job)
		time.Sleep(100 * time.Millisecond) // whether #1 has it is unknown
		way.well()
		lost := false
		way.onCall("Release", func(r call) error {
			err := r.do()
			if !lost && strings.HasSuffix(string(r.arg.(lock.Return).Owner), "#1") {
				lost = true
				time.Sleep(100 * time.Millisecond)
				return errUnknown
			}
			return err
		})
		other.release(x)
		time.Sleep(time.Second)
		var read, write session.Hold
		for _, e := range c.events() {
			if g, is := e.(session.Granted); is && g.Hold.Kind == lock.Read {
				read = g.Hold
			} else if is {
				write = g.More[0]
			}
		}
		if read.Fence == 0 || write.Fence == 0 {
			t.Fatalf("read %+v, write %+v: want both", read, write)
		}
		c.release(write)
		other.try(of("job", lock.Write))
		one[session.NotGranted](other)
	})
}

// asksOnce has a unary call made for "job", and is told its error.
func asksOnce(w *world, id string, wait, lease time.Duration) (told chan error) {
	told = make(chan error, 1)
	go func() {
		_, refused, err := w.once(request.Once{Name: "job", Lease: lease, Wait: &wait, LeaseID: id})
		if refused != nil {
			err = refused.Cause
		}
		told <- err
	}()
	time.Sleep(time.Millisecond)
	return told
}

// The repetition of a unary call has the lock when the first one is granted it too late: it is asked for before others.
func TestARepetitionIsTriedWhenTheFirstCallIsGrantedTooLate(t *testing.T) {
	inWorld(t, func(w *world) {
		there, way := w.severable()
		other := w.alive()
		job := other.take("job").Hold
		first := asksOnce(there, ownID, 1500*time.Millisecond, 2*time.Second)
		asksOnce(there, "", time.Minute, time.Minute)
		again := asksOnce(there, ownID, time.Minute, 2*time.Second)
		way.on("Acquire", inTurn(func(next func() error) error {
			time.Sleep(2100 * time.Millisecond)
			return next()
		}, 1, func(next func() error) error { return next() }))
		other.release(job)
		if err := <-first; !isError(err, errUnknown) {
			t.Errorf("the first is told %v", err)
		}
		start := time.Now()
		if err := <-again; err != nil || time.Since(start) > time.Second {
			t.Errorf("the repetition has the lock, and is told %v after %v", err, time.Since(start))
		}
	})
}

// Nor is it told "no" when its wait ends first, or the store is away.
func TestARepetitionThatMayHaveTheLockIsNotToldNo(t *testing.T) {
	for what, then := range map[string]func(func() error) error{
		"well": func(next func() error) error { return next() }, "away": fails(lock.ErrUnavailable, 0),
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				there, way := w.severable()
				other := w.alive()
				job := other.take("job").Hold
				first := asksOnce(there, ownID, time.Second, time.Hour)
				asksOnce(there, "", time.Minute, time.Hour)
				again := asksOnce(there, ownID, 3*time.Second, time.Hour)
				way.on("Acquire", inTurn(lose(2, 600*time.Millisecond), 2, then))
				other.release(job)
				if err := <-first; !isError(err, errUnknown) {
					t.Errorf("the first is told %v", err)
				}
				if err := <-again; err != nil && !isError(err, errUnknown) && w.look("job").Held {
					t.Errorf("the repetition is told %v, and has the lock: %+v", err, w.look("job"))
				}
			})
		})
	}
}

// The first call leaves as the replica stops, and its repetition moves to the front of the queue: it is answered too.
func TestARepetitionIsAnsweredWhenTheReplicaStops(t *testing.T) {
	inWorld(t, func(w *world) {
		there, way := w.severable()
		other := w.alive()
		job := other.take("job").Hold
		told := []chan error{
			asksOnce(there, ownID, time.Hour, time.Hour), asksOnce(there, "", time.Hour, time.Hour),
			asksOnce(there, ownID, time.Hour, time.Hour),
		}
		way.on("Acquire", inTurn(fails(errUnknown, 0), 2, fails(lock.ErrUnavailable, 0))) // nothing is done, nobody knows
		other.release(job)
		time.Sleep(10 * time.Millisecond)
		other.take("job")
		must(t, there.b.Close(w.t.Context()))
		synctest.Wait()
		for i, told := range told {
			select {
			case <-told:
			default:
				t.Errorf("call %d was not answered", i)
			}
		}
	})
}
