package broker_test

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
)

// What Redisson's behaviour checklist says of single kinds of locks.

func TestFairWaitersTenMillisecondsApartAreServedInTheirOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		worlds := []*world{w, w.replica(), w.replica()}
		first := w.alive()
		g := first.takeKind("job", lock.Fair)
		n := 2 * max(runtime.GOMAXPROCS(0), 16)
		var served []int // the lock guards it
		var wg sync.WaitGroup
		for i := range n {
			c := worlds[i%3].alive()
			wg.Go(func() {
				g, ok := c.hold(of("job", lock.Fair))
				if !ok {
					return
				}
				served = append(served, i)
				time.Sleep(5 * time.Millisecond)
				c.giveBack(g.Hold)
			})
			time.Sleep(10 * time.Millisecond)
		}
		first.release(g.Hold)
		wg.Wait()
		if len(served) != n || !slices.IsSorted(served) {
			t.Errorf("served %v, want 0 to %d in this order", served, n-1)
		}
	})
}

func TestFiveHundredFairWaitersAreServedInTwoMinutes(t *testing.T) {
	inWorld(t, func(w *world) {
		worlds := []*world{w, w.replica(), w.replica()}
		begin := time.Now()
		var v visits
		var wg sync.WaitGroup
		for i := range 500 {
			c := worlds[i%3].alive()
			wg.Go(func() { c.visit(leased(of("job", lock.Fair), 5*time.Second), &v, 1, 200*time.Millisecond) })
		}
		wg.Wait()
		if d := time.Since(begin); v != 500 || d > 2*time.Minute {
			t.Errorf("%d of 500 had their turns in %v", v, d)
		}
	})
}

// positions are those of the sessions that wait for "job", as any replica shows them.
func (w *world) positions(t *testing.T, clients ...*client) (all []int) {
	t.Helper()
	infos, err := w.b.Waiters(w.t.Context(), "job", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		at := slices.IndexFunc(infos, func(i broker.WaiterInfo) bool { return i.Session == c.ID() })
		if at >= 0 {
			at = infos[at].Position
		}
		all = append(all, at)
	}
	return all
}

func TestFairWaitersMoveUpWhenOthersGiveUpOrAreServed(t *testing.T) {
	inWorld(t, func(w *world) {
		first := w.alive()
		g := first.takeKind("job", lock.Fair)
		waiters := []*client{w.alive(), w.alive(), w.alive(), w.alive()}
		for i, c := range waiters {
			req := of("job", lock.Fair)
			if i == 1 {
				req.Wait = new(5 * time.Second)
			}
			if _, position := c.queueAs(req); position != i {
				t.Errorf("waiter %d is told position %d", i, position)
			}
		}
		time.Sleep(5 * time.Second)
		waiters[1].notGranted(broker.ErrTimedOut)
		if got := w.positions(t, waiters...); !slices.Equal(got, []int{0, -1, 1, 2}) {
			t.Errorf("got positions %v after one gave up", got)
		}
		first.release(g.Hold)
		if got := w.positions(t, waiters...); !slices.Equal(got, []int{-1, -1, 0, 1}) {
			t.Errorf("got positions %v after a grant", got)
		}
	})
}

// TestDeadFairWaitersInTheMiddleDelayNobody has those who die long before it would be their turn.
func TestDeadFairWaitersInTheMiddleDelayNobody(t *testing.T) {
	inWorld(t, func(w *world) {
		dead, deadStore := w.severable()
		first, second, third := w.alive(), w.alive(), w.replica().alive()
		g := first.takeKind("job", lock.Fair)
		second.queueKind("job", lock.Fair)
		for range 50 {
			dead.alive().queueKind("job", lock.Fair)
		}
		deadStore.setDown(lock.ErrUnavailable)
		third.queueKind("job", lock.Fair)
		time.Sleep(10 * time.Second)
		first.release(g.Hold)
		second.release(one[broker.Granted](second).Hold)
		third.grantedWithin(10 * time.Millisecond)
	})
}

func TestReleaseAfterAFailedAcquisitionIsRefusedAndHarmsNobody(t *testing.T) {
	eachKind(t, allKinds, func(w *world, k lock.Kind) {
		a, b := w.alive(), w.replica().alive()
		g := a.takeAs(of("job", k))
		b.busy(rival("job", k))
		b.acquire(waiting(rival("job", k), 50*time.Millisecond))
		time.Sleep(50 * time.Millisecond)
		b.events()
		mine := broker.Hold{Name: "job", Kind: rival("job", k).Kind}
		b.Release(b.id(), mine)
		b.failed(lock.ErrNotHeld)
		a.release(g.Hold)
		b.Release(b.id(), mine)
		b.failed(lock.ErrNotHeld)
		b.takeAs(rival("job", k))
	})
}

// TestFairRequestsDuringAnOutageEndInTime has the store away for half a minute.
func TestFairRequestsDuringAnOutageEndInTime(t *testing.T) {
	inWorld(t, func(w *world) {
		far, store := w.severable()
		holder, before, during := w.alive(), far.alive(), far.alive()
		g := holder.takeKind("job", lock.Fair)
		req := waiting(of("job", lock.Fair), 3*time.Second)
		before.queueAs(req)
		store.setDown(lock.ErrUnavailable)
		during.refused(of("other", lock.Fair), lock.ErrUnavailable)
		during.acquire(req) // behind the other: it is not told a position
		time.Sleep(3 * time.Second)
		before.notGranted(broker.ErrTimedOut)
		during.notGranted(broker.ErrTimedOut)
		time.Sleep(27 * time.Second)
		store.setDown(nil)
		holder.release(g.Hold)
		time.Sleep(time.Second)
		if left, err := w.store.Queue(w.t.Context(), "job", 0, 10); err != nil || len(left) > 0 {
			t.Errorf("left in the queue: %v, %v", left, err)
		}
		before.takeKind("job", lock.Fair)
	})
}

func TestDowngradeKeepsTheLeaseRenewedAndWritersOut(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.alive(), w.replica().alive()
		renewed := func(what string) {
			for range 250 {
				time.Sleep(100 * time.Millisecond)
				if ttl := w.shown().TTL; ttl < 19*time.Second {
					t.Fatalf("%v remain while it %s, want 19 s", ttl, what)
				}
				other.busy(of("job", lock.Write))
			}
		}
		write := c.takeAs(holder("job", lock.Write))
		read := c.takeAs(holder("job", lock.Read))
		renewed("writes")
		c.release(write.Hold)
		renewed("reads")
		c.none()
		c.release(read.Hold)
		other.takeKind("job", lock.Write)
	})
}

func TestAWritersReadHoldIsShownWhileItHasOne(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		shows := func(want ...lock.Kind) {
			t.Helper()
			var got []lock.Kind
			for _, l := range w.b.Leases("job", "", 10) {
				got = append(got, l.Hold.Kind)
			}
			if !slices.Equal(got, want) || w.shown().Kind != lock.Write {
				t.Errorf("got leases %v of a lock of kind %v, want %v of one that writes", got, w.shown().Kind, want)
			}
		}
		c.takeAs(holder("job", lock.Write))
		shows(lock.Write)
		read := c.takeAs(holder("job", lock.Read))
		shows(lock.Write, lock.Read)
		c.release(read.Hold)
		shows(lock.Write)
	})
}

// TestNestedWriteLeasesLastAsLongAsTheLongest differs from Redisson, which adds them up.
func TestNestedWriteLeasesLastAsLongAsTheLongest(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.alive(), w.replica().alive()
		c.takeAs(leased(holder("job", lock.Write), 10*time.Second))
		c.takeAs(leased(holder("job", lock.Write), time.Second))
		other.queueKind("job", lock.Write)
		time.Sleep(9900 * time.Millisecond)
		other.none()
		other.grantedWithin(150 * time.Millisecond)
	})
}

func TestASecondReadHoldDoesNotProlongTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		c, writer := w.alive(), w.replica().alive()
		c.takeAs(leased(holder("job", lock.Read), 4*time.Second))
		writer.queueKind("job", lock.Write)
		time.Sleep(time.Second)
		second := c.takeAs(leased(holder("job", lock.Read), time.Second))
		time.Sleep(500 * time.Millisecond)
		c.release(second.Hold)
		time.Sleep(2400 * time.Millisecond)
		writer.none()
		writer.grantedWithin(150 * time.Millisecond)
	})
}

func TestTwentyReadersBehindAWriterWorkAtTheSameTime(t *testing.T) {
	inWorld(t, func(w *world) {
		writer, there := w.alive(), w.replica()
		g := writer.takeKind("job", lock.Write)
		var wg sync.WaitGroup
		for i := range 20 {
			c := []*world{w, there}[i%2].alive()
			c.queueKind("job", lock.Read)
			wg.Go(func() {
				g := c.awaitGrant()
				time.Sleep(800 * time.Millisecond)
				c.giveBack(g.Hold)
			})
		}
		begin := time.Now()
		writer.release(g.Hold)
		wg.Wait()
		if d := time.Since(begin); d > time.Second {
			t.Errorf("20 readers with 0.8 s of work each took %v", d)
		}
	})
}

func TestFencesRiseWhateverWayALockIsTaken(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.alive(), w.replica().alive()
		var last lock.Fence
		for _, req := range []broker.AcquireRequest{
			of("job", lock.Exclusive), leased(of("job", lock.Exclusive), time.Minute),
			waiting(of("job", lock.Exclusive), 0), waiting(of("job", lock.Exclusive), time.Second),
			of("job", lock.Fair), waiting(of("job", lock.Fair), 0), of("job", lock.Read), of("job", lock.Write),
			allOf(lock.Exclusive, "other", "job"),
		} {
			for _, c := range []*client{a, b} {
				g := c.takeAs(req)
				hold := g.Hold
				if len(g.More) > 0 {
					hold = g.More[0]
				}
				if hold.Fence <= last || w.shown().Fence != hold.Fence {
					t.Errorf("%+v: got fence %d after %d, and %d is shown", req, hold.Fence, last, w.shown().Fence)
				}
				last = hold.Fence
				for _, h := range append(g.More, g.Hold) {
					c.release(h)
				}
			}
		}
	})
}

func TestARequestWithoutAHolderIsNobodyElse(t *testing.T) {
	eachKind(t, []lock.Kind{lock.Exclusive, lock.Fair}, func(w *world, k lock.Kind) {
		c, other := w.alive(), w.replica().alive()
		g := c.takeAs(of("job", k))
		c.busy(of("job", k))
		c.queueAs(waiting(of("job", k), time.Second))
		time.Sleep(time.Second)
		c.notGranted(broker.ErrTimedOut) // it waited for itself, for as long as it wanted
		if got := w.shown().Count; got != 1 {
			t.Errorf("got hold count %d, want 1", got)
		}
		other.queueAs(of("job", k))
		c.release(g.Hold)
		one[broker.Granted](other)
	})
}

func TestPermitsWithALeaseReturnAtItsEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.alive(), w.replica().alive()
		a.takeAs(leased(permits(1, 1), 2*time.Second))
		b.queueAs(permits(1, 1))
		time.Sleep(1900 * time.Millisecond)
		b.none()
		b.grantedWithin(200 * time.Millisecond)
	})
}

func TestATimedWaitForPermitsEndsWhenTheyArrive(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b := w.alive(), w.replica().alive()
		g, rest := a.takeAs(permits(0, 3)), a.takeAs(permits(2, 3)) // 0 is 1
		b.queueAs(waiting(permits(3, 3), 5*time.Second))
		time.Sleep(500 * time.Millisecond)
		a.release(rest.Hold)
		time.Sleep(400 * time.Millisecond)
		b.none()
		a.release(g.Hold)
		b.grantedWithin(300 * time.Millisecond)
	})
}

func TestPermitsThatAreOverUnknownOrReturnedCannotBeReturned(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		returns := func(h broker.Hold) { c.Release(c.id(), h); c.failed(lock.ErrNotHeld) }
		over := c.takeAs(leased(permits(2, 3), time.Second))
		time.Sleep(1100 * time.Millisecond)
		one[broker.Lost](c)
		returns(over.Hold)
		done := c.takeAs(permits(3, 3))
		c.release(done.Hold)
		returns(done.Hold)
		returns(broker.Hold{Name: "pool", Kind: lock.Semaphore, Holder: "#4711", Fence: done.Hold.Fence})
		returns(broker.Hold{Name: "nowhere", Kind: lock.Semaphore, Holder: "#4711"})
		if st := w.look("nowhere"); st.Limit != 0 {
			t.Errorf("got %+v, want no semaphore", st)
		}
		c.takeAs(permits(3, 3))
		if st := w.look("pool"); st.Limit != 3 || st.Holders != 3 {
			t.Errorf("got %+v, want 3 permits of 3 out", st)
		}
	})
}

func TestPermitsAddUpBeforeAndAfterTheEndOfALease(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		adds := func(out uint32) {
			t.Helper()
			if st := w.look("pool"); st.Limit != 10 || st.Holders != out {
				t.Errorf("got %+v, want %d permits of 10 out", st, out)
			}
			c.busy(permits(11-out, 10))
			free := c.takeAs(permits(10-out, 10))
			c.release(free.Hold)
		}
		c.takeAs(leased(permits(2, 10), 2*time.Second))
		c.takeAs(permits(3, 10))
		adds(5)
		time.Sleep(2100 * time.Millisecond)
		one[broker.Lost](c)
		adds(3)
		c.refused(permits(1, 2), lock.ErrLimitMismatch) // nobody makes it smaller than what is out
		adds(3)
	})
}

func TestALeaseOfPermitsIsExtendedWhileItLasts(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.takeAs(leased(permits(2, 3), 2*time.Second))
		c.Extend(c.id(), broker.ExtendRequest{Hold: g.Hold, Lease: new(10 * time.Second)})
		one[broker.Extended](c)
		if st := w.look("pool"); st.TTL != 10*time.Second {
			t.Errorf("%v remain, want 10 s", st.TTL)
		}
		time.Sleep(9 * time.Second)
		c.none()
		time.Sleep(time.Second)
		one[broker.Lost](c)
		c.Extend(c.id(), broker.ExtendRequest{Hold: g.Hold, Lease: new(10 * time.Second)})
		c.failed(lock.ErrNotHeld)
	})
}

func TestWaitersForSeveralPermitsAreServedInTurn(t *testing.T) {
	inWorld(t, func(w *world) {
		a, b, c := w.alive(), w.alive(), w.replica().alive()
		g := a.takeAs(permits(3, 3))
		b.queueAs(permits(2, 3))
		c.queueAs(permits(2, 3))
		a.release(g.Hold)
		next, last := b, c
		events := next.events()
		if len(events) == 0 { // replicas compete
			next, last = c, b
			events = next.events()
		}
		h, ok := events[0].(broker.Granted)
		if !ok {
			t.Fatalf("got %#v, want a grant", events)
		}
		last.none()
		next.release(h.Hold)
		one[broker.Granted](last)
	})
}

func TestTheGreatestLimitWorks(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		g := c.takeAs(permits(1000, math.MaxInt32))
		if st := w.look("pool"); st.Limit != math.MaxInt32 || st.Holders != 1000 {
			t.Errorf("got %+v", st)
		}
		c.release(g.Hold)
		c.acquire(permits(1, 1))
		if e, ok := errors.AsType[*lock.LimitError](one[broker.Failed](c).Err); !ok || e.Limit != math.MaxInt32 {
			t.Errorf("got %v, want a LimitError", e)
		}
		c.refused(permits(1, math.MaxInt32+1), lock.ErrInvalid)
	})
}

// TestSixteenWorkersShareFourPermits would lose visits if more than four were there at once.
func TestSixteenWorkersShareFourPermits(t *testing.T) {
	inWorld(t, func(w *world) {
		worlds := []*world{w, w.replica()}
		var mu sync.Mutex
		inside, most, total := 0, 0, 0
		come := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			inside += n
			most = max(most, inside)
			total += max(n, 0)
		}
		var wg sync.WaitGroup
		for i := range 16 {
			c := worlds[i%2].alive()
			wg.Go(func() {
				for range 100 {
					g, ok := c.hold(permits(1, 4))
					if !ok {
						return
					}
					come(1)
					time.Sleep(10 * time.Millisecond)
					come(-1)
					c.giveBack(g.Hold)
				}
			})
		}
		wg.Wait()
		if most != 4 || total != 1600 {
			t.Errorf("%d visits of 1600, at most %d at once, want 4", total, most)
		}
	})
}
