package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// Each read hold of a holder has a lease of its own: a further one does not prolong those before it.
func TestAGivenBackReadHoldDoesNotProlongTheFirst(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		start := time.Now()
		read := request.Acquire{Name: "doc", Kind: lock.Read, Holder: "me", Lease: new(4 * time.Second)}
		c.acquire(read)
		first := one[session.Granted](c)
		time.Sleep(3 * time.Second)
		c.acquire(read)
		second := one[session.Granted](c)
		if !second.Validity.Until.After(start.Add(6 * time.Second)) {
			t.Errorf("both are valid until %v, want that of the second", second.Validity.Until.Sub(start))
		}
		c.Release(c.id(), second.Hold)
		released := one[session.Released](c)
		if released.Remaining != 1 || !released.Validity.Until.Equal(first.Validity.Until) {
			t.Errorf("got %+v, want what the first was told: %v", released, first.Validity)
		}
		other := w.alive()
		other.acquire(request.Acquire{Name: "doc", Kind: lock.Write})
		one[session.Queued](other)
		time.Sleep(time.Until(start.Add(3900 * time.Millisecond)))
		other.none()
		time.Sleep(200 * time.Millisecond)
		one[session.Granted](other)
		if lost := one[session.Lost](c); lost.Reason != lock.LostExpired {
			t.Errorf("got %+v", lost)
		}
	})
}

// A read hold that is renewed keeps none alive that is not, and the other way round.
func TestReadHoldsAreRenewedEachForItself(t *testing.T) {
	auto := request.Acquire{Name: "doc", Kind: lock.Read, Holder: "me"}
	fixed := auto
	fixed.Lease = new(10 * time.Second)
	for name, c := range map[string]struct {
		first, second request.Acquire
		auto          bool
	}{
		"a fixed one below an auto one": {fixed, auto, false},
		"an auto one below a fixed one": {auto, fixed, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				me := w.alive()
				me.acquire(c.first)
				one[session.Granted](me)
				me.acquire(c.second)
				second := one[session.Granted](me)
				if !second.Auto || second.Count != 2 {
					t.Errorf("got %+v, want two holds that are renewed", second)
				}
				time.Sleep(2 * time.Minute)
				me.none()
				me.Release(me.id(), second.Hold)
				if !c.auto { // the first one's time has passed long since
					for _, e := range me.events() {
						if lost, ok := e.(session.Lost); ok && lost.Reason == lock.LostExpired {
							w.free("doc")
							return
						}
					}
					t.Error("the first hold was not lost")
					return
				}
				one[session.Released](me)
				time.Sleep(2 * time.Minute)
				me.none()
				me.release(second.Hold)
				w.free("doc")
			})
		})
	}
}

// A further hold of the other kinds prolongs the only lease there is, and giving it back does not shorten that.
func TestFurtherHoldsOfOtherKindsProlongTheLease(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Fair, lock.Write} {
		t.Run(kind.String(), func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.alive()
				req := request.Acquire{Name: "job", Kind: kind, Holder: "me", Lease: new(4 * time.Second)}
				c.acquire(req)
				one[session.Granted](c)
				time.Sleep(3 * time.Second)
				c.acquire(req)
				second := one[session.Granted](c)
				c.Release(c.id(), second.Hold)
				if r := one[session.Released](c); !r.Validity.Until.Equal(second.Validity.Until) {
					t.Errorf("got %+v, want what the second was told: %v", r, second.Validity)
				}
				time.Sleep(3900 * time.Millisecond)
				c.none()
				time.Sleep(200 * time.Millisecond)
				one[session.Lost](c)
			})
		})
	}
}

// What is shortened is what lasts: a read hold whose lease has ended is not brought back by it.
func TestShorteningBringsNoEndedReadHoldBack(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		read := request.Acquire{Name: "doc", Kind: lock.Read, Holder: "me", Lease: new(time.Second)}
		c.acquire(read)
		one[session.Granted](c)
		read.Lease = new(time.Minute)
		c.acquire(read)
		second := one[session.Granted](c)
		time.Sleep(2 * time.Second) // the first has ended
		c.Extend(c.id(), request.Extend{Hold: second.Hold, Lease: new(10 * time.Second), MayShorten: true})
		one[session.Extended](c)
		c.Release(c.id(), second.Hold)
		lost := false
		for _, e := range c.events() {
			l, ok := e.(session.Lost)
			lost = lost || ok && l.Reason == lock.LostExpired
		}
		w.free("doc")
		if !lost {
			t.Error("nobody reads any more, and the holder was not told")
		}
	})
}

// A release that was repeated may be executed once more, late, and then takes a newer hold away: that one is not
// trusted.
func TestAReadHoldAfterARepeatedReleaseIsNotTrusted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		read := request.Acquire{Name: "doc", Kind: lock.Read, Holder: "me", Lease: new(10 * time.Second)}
		c.acquire(read)
		first := one[session.Granted](c)
		read.Lease = new(time.Minute)
		c.acquire(read)
		one[session.Granted](c)
		lost := false
		w.store.on("Release", func(next func() error) error {
			if lost {
				return next()
			}
			lost = true
			return lock.ErrOutcomeUnknown
		})
		c.Release(c.id(), first.Hold)
		one[session.Released](c)
		c.acquire(read)
		if third := one[session.Granted](c); third.Validity.Until.After(first.Validity.Until) {
			t.Errorf("trusted until %v, want no later than the first, %v", third.Validity.Until, first.Validity.Until)
		}
	})
}

// The same if it was not told, came too late, and was given back with no answer.
func TestAReadHoldAfterOneThatWasTakenBackIsNotTrusted(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		read := request.Acquire{Name: "doc", Kind: lock.Read, Holder: "me", Lease: new(20 * time.Second)}
		c.acquire(read)
		first := one[session.Granted](c)
		w.store.on("Acquire", late(5*time.Second))
		w.store.on("Release", fails(lock.ErrOutcomeUnknown))
		read.Lease, read.Wait = new(time.Minute), new(time.Second)
		c.acquire(read)
		time.Sleep(6 * time.Second)
		c.failed(lock.ErrOutcomeUnknown)
		w.store.onCall("Acquire", nil)
		w.store.onCall("Release", nil)
		c.acquire(read)
		if third := one[session.Granted](c); third.Validity.Until.After(first.Validity.Until) {
			t.Errorf("trusted until %v, want no later than the first, %v", third.Validity.Until, first.Validity.Until)
		}
	})
}
