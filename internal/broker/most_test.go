package broker_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// mostOf is the end of a hold with a max_hold that is granted now.
func mostOf(maxHold time.Duration) time.Time {
	return time.Now().Add(maxHold - maxHold/100 - 2*time.Millisecond)
}

// lostAtMost checks that some holds are lost at their end, and not before.
func (c *client) lostAtMost(end time.Time, holds int) {
	c.t.Helper()
	time.Sleep(time.Until(end) - time.Millisecond)
	c.none()
	time.Sleep(time.Millisecond)
	events := c.events()
	for _, e := range events {
		if lost, is := e.(session.Lost); !is || lost.Reason != lock.LostMaxHold {
			c.t.Fatalf("got %#v, want it lost by max_hold", e)
		}
	}
	if len(events) != holds {
		c.t.Fatalf("got %#v, want %d of Lost", events, holds)
	}
}

// TestMaxHoldEndsTheHoldOfALiveClient fails if a client that is heard all the while keeps a lock for longer than its
// max_hold, loses it before, or if the store has it a moment longer.
func TestMaxHoldEndsTheHoldOfALiveClient(t *testing.T) {
	for what, req := range map[string]request.Acquire{
		"exclusive": {}, "fair": {Kind: lock.Fair}, "read": {Kind: lock.Read}, "write": {Kind: lock.Write},
		"semaphore": {Kind: lock.Semaphore, Permits: 2, Limit: 3},
		"several":   {More: []request.Item{{Name: "other", Kind: lock.Fair}}, List: request.Items},
	} {
		for _, maxHold := range []time.Duration{time.Second, 29 * time.Second, 31 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprint(what, " ", maxHold), func(t *testing.T) {
				inWorld(t, func(w *world) {
					c, begun := w.alive(), time.Now()
					req.Name, req.MaxHold = "job", &maxHold
					g := c.takeAs(req)
					if !g.Auto || !g.Most.Equal(mostOf(maxHold)) {
						t.Fatalf("got %+v, want an auto lease that ends at %v", g, mostOf(maxHold))
					}
					for ; g.Most.After(time.Now().Add(time.Second)); time.Sleep(time.Second) {
						if left := time.Until(begun.Add(maxHold)); w.look("job").TTL > left {
							t.Fatalf("the store has it for %v, want at most %v", w.look("job").TTL, left)
						}
					}
					c.lostAtMost(g.Most, 1+len(req.More))
					time.Sleep(time.Until(begun.Add(maxHold)))
					synctest.Wait()
					w.free("job")
				})
			})
		}
	}
}

// TestMaxHoldOverAMajority is that for several masters, which keep a lease a little longer by themselves: the next
// waiter has the lock when max_hold is over.
func TestMaxHoldOverAMajority(t *testing.T) {
	inGroup(t, 1, func(g *group) {
		w := g.replicas[0]
		c, next := w.alive(), w.alive()
		begun := time.Now()
		c.acquire(request.Acquire{Name: "job", MaxHold: new(time.Minute)})
		granted := c.awaitGrant()
		next.acquire(request.Acquire{Name: "job"})
		lost, is := c.await().(session.Lost)
		if !is || lost.Reason != lock.LostMaxHold || time.Now().Before(granted.Most) {
			t.Fatalf("got %#v after %v, want it lost by max_hold at its end", lost, time.Since(begun))
		}
		next.awaitGrant()
		if held := time.Since(begun); held < time.Until(granted.Most) || held > time.Minute+100*time.Millisecond {
			t.Errorf("the next one has it after %v, want a minute", held)
		}
	})
}

// TestMaxHoldHasNoOtherLeaseEndEarly fails if the answers to heartbeats tell of a lease that lasts until its max_hold,
// which would have the client take all other auto leases for nearly over; or if they do not tell of it before.
func TestMaxHoldHasNoOtherLeaseEndEarly(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.open()
		beat := func() time.Time {
			c.Heartbeat(0, c.id())
			return one[session.HeartbeatAck](c).Until
		}
		g := c.takeAs(request.Acquire{Name: "job", MaxHold: new(75 * time.Second)})
		time.Sleep(c.HeartbeatInterval())
		if until := beat(); until.IsZero() || until.After(g.Most) {
			t.Errorf("got %v, want the end of the lease, which is not the last one", until)
		}
		other := c.take("other").Hold
		for range 6 {
			time.Sleep(c.HeartbeatInterval())
			if left := time.Until(beat()); left < c.TTL()*6/10 {
				t.Errorf("%v before the end: all auto leases are said to end in %v", time.Until(g.Most), left)
			}
		}
		c.release(other)
		if until := beat(); until.Before(g.Most.Add(c.TTL())) {
			t.Errorf("got %v, want it surely after the end of the only auto lease, %v, which lasts until then", until, g.Most)
		}
		c.lostAtMost(g.Most, 1)
	})
}

// TestNothingProlongsAMaxHold has a client try with all that prolongs a lease.
func TestNothingProlongsAMaxHold(t *testing.T) {
	for what, try := range map[string]func(c *client, h session.Hold){
		"extend":    func(c *client, h session.Hold) { c.Extend(c.id(), request.Extend{Hold: h, Lease: new(time.Hour)}) },
		"make auto": func(c *client, h session.Hold) { c.Extend(c.id(), request.Extend{Hold: h}) },
		"set": func(c *client, h session.Hold) {
			c.Extend(c.id(), request.Extend{Hold: h, Lease: new(time.Hour), MayShorten: true})
		},
		"nest": func(c *client, _ session.Hold) { c.acquire(request.Acquire{Name: "job", Holder: "h"}) },
		"nest with a longer one": func(c *client, _ session.Hold) {
			c.acquire(request.Acquire{Name: "job", Holder: "h", MaxHold: new(time.Hour)})
		},
		"nest with a lease": func(c *client, _ session.Hold) {
			c.acquire(request.Acquire{Name: "job", Holder: "h", Lease: new(time.Hour)})
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c, begun := w.alive(), time.Now()
				g := c.takeAs(request.Acquire{Name: "job", Holder: "h", MaxHold: new(time.Minute)})
				for range 3 {
					time.Sleep(18 * time.Second)
					try(c, g.Hold)
					switch e := c.events()[0].(type) {
					case session.Extended:
						if e.Validity.Until.After(g.Most) || e.Validity.Most != e.Validity.Until.Equal(g.Most) {
							t.Errorf("got %+v, want no end after %v", e, g.Most)
						}
					case session.Granted:
						if e.Validity.Until.After(g.Most) || e.Validity.Most != e.Validity.Until.Equal(g.Most) ||
							!e.Most.Equal(g.Most) {
							t.Errorf("got %+v, want no end after %v", e, g.Most)
						}
					default:
						t.Fatalf("got %#v", e)
					}
				}
				c.lostAtMost(g.Most, 1)
				time.Sleep(time.Until(begun.Add(time.Minute)))
				synctest.Wait()
				w.free("job")
			})
		})
	}
}

// TestAFixedLeaseThatBecomesAutoHasTheMaxHoldOfThatRequest is of a holder that asks once more, for less than it has.
func TestAFixedLeaseThatBecomesAutoHasTheMaxHoldOfThatRequest(t *testing.T) {
	for lease, most := range map[time.Duration]time.Duration{time.Second: time.Minute, time.Hour: time.Hour} {
		inWorld(t, func(w *world) {
			c := w.alive()
			g := c.takeAs(request.Acquire{Name: "job", Holder: "h", Lease: &lease})
			again := c.takeAs(request.Acquire{Name: "job", Holder: "h", MaxHold: new(time.Minute)})
			want := mostOf(most)
			if early := want.Sub(again.Most); early < -time.Microsecond || early > 0 || g.Validity.Until.After(again.Most) {
				t.Fatalf("got %+v, want it held until %v", again, want)
			}
			c.lostAtMost(again.Most.Add(time.Microsecond), 1)
		})
	}
}

// TestMaxHoldGoesOnElsewhere fails if a session that is resumed at another replica has more left of a max_hold than it
// had, or less.
func TestMaxHoldGoesOnElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other, begun := w.leaving(), w.replica(), time.Now()
		g := c.takeAs(request.Acquire{Name: "job", MaxHold: new(time.Minute)})
		time.Sleep(10 * time.Second)
		c.Detach(errCut)
		req := c.resumption(2, claims(true, g.Hold))
		req.Holds[0].MaxHold = new(time.Until(g.Most))
		back, lost := other.resume(req)
		w.t.Cleanup(back.beats())
		held := back.Resumed()
		if len(lost) > 0 || len(held) != 1 || held[0].Most.Sub(g.Most).Abs() > time.Microsecond || !held[0].Auto {
			t.Fatalf("got %+v and lost %+v, want it auto with an end at %v", held, lost, g.Most)
		}
		back.lostAtMost(g.Most.Add(time.Microsecond), 1)
		time.Sleep(time.Until(begun.Add(time.Minute)))
		synctest.Wait()
		w.free("job")
	})
}

// TestARenewalThatComesLateDoesNotCarryALockBeyondItsMaxHold has the store carry out renewals long after they were
// sent, as one that was stopped: the lease would last for as much longer.
func TestARenewalThatComesLateDoesNotCarryALockBeyondItsMaxHold(t *testing.T) {
	inWorld(t, func(w *world) {
		c, begun := w.alive(), time.Now()
		w.store.on("Renew", func(next func() error) error {
			time.Sleep(3 * time.Second)
			return next()
		})
		g := c.takeAs(request.Acquire{Name: "job", MaxHold: new(time.Minute)})
		next := w.alive()
		next.queue("job")
		c.lostAtMost(g.Most, 1)
		next.none()
		time.Sleep(time.Until(begun.Add(time.Minute + 10*time.Millisecond)))
		one[session.Granted](next)
	})
}

// TestALeaseThatIsNotRenewedIsNotLostByItsMaxHold tells the two apart.
func TestALeaseThatIsNotRenewedIsNotLostByItsMaxHold(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		c.takeAs(request.Acquire{Name: "job", MaxHold: new(time.Hour)})
		w.store.setDown(lock.ErrUnavailable)
		c.until(func(e session.Event) bool {
			lost, is := e.(session.Lost)
			if is && lost.Reason != lock.LostExpired {
				t.Errorf("got %+v, want expired", lost)
			}
			return is
		})
	})
}

// TestWhichMaxHoldsAreRefused lists them.
func TestWhichMaxHoldsAreRefused(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.alive()
		for _, req := range []request.Acquire{
			{MaxHold: new(time.Duration(0))},
			{MaxHold: new(-time.Second)},
			{MaxHold: new(time.Millisecond)},
			{MaxHold: new(w.cfg.Limits.MaxLease + 1)},
			{MaxHold: new(time.Minute), Lease: new(time.Minute)},
		} {
			req.Name = "job"
			c.acquire(req)
			c.failed(lock.ErrInvalid)
		}
		w.free("job")
	})
}
