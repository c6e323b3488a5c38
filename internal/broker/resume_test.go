package broker_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

var errCut = errors.New("the connection was cut")

// leaving opens a session whose client comes back.
func (w *world) leaving() *client { return w.openWith(session.OpenRequest{ComesBack: true}) }

// claims are holds as their client names them.
func claims(auto bool, holds ...session.Hold) (all []session.HeldLock) {
	for _, h := range holds {
		all = append(all, session.HeldLock{Hold: h, Count: 1, Auto: auto})
	}
	return all
}

// resumption is what the client of a session asks when it comes back.
func (c *client) resumption(epoch uint64, holds []session.HeldLock) session.ResumeRequest {
	return session.ResumeRequest{
		OpenRequest: session.OpenRequest{ComesBack: true}, ID: c.ID(), Token: c.Token(),
		Epoch: epoch, LastRequest: c.lastID, Holds: holds,
	}
}

// resume goes on with a session here.
func (w *world) resume(req session.ResumeRequest) (*client, []session.Lost) {
	w.t.Helper()
	s, lost, err := w.b.Resume(w.t.Context(), req)
	if err != nil {
		w.t.Fatalf("resume: %v", err)
	}
	return &client{Session: s, t: w.t, lastID: req.LastRequest}, lost
}

// resumeErr is what becomes of an attempt that fails.
func (w *world) resumeErr(req session.ResumeRequest, want error) {
	w.t.Helper()
	if _, _, err := w.b.Resume(w.t.Context(), req); !isError(err, want) {
		w.t.Errorf("got %v, want %v", err, want)
	}
}

// A nested release whose answer was lost is counted as not done, and sent again: it is done once.
func TestANestedReleaseIsRepeatedAfterResume(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.leaving(), w.replica()
		var hold session.Hold
		for range 2 {
			hold = c.takeAs(request.Acquire{Name: "job", Holder: "h"}).Hold
		}
		c.release(hold)
		claimed := claims(true, hold)
		claimed[0].Count = 2
		c.Detach(errCut)
		back, _ := other.resume(c.resumption(2, claimed))
		for _, want := range []uint32{1, 0} {
			back.Release(back.id(), hold)
			if r := one[session.Released](back); r.Remaining != want {
				t.Errorf("got %+v, want %d left", r, want)
			}
		}
		w.free("job")
	})
}

// Nobody but its client goes on with a session, and not with an epoch that is over, nor after its end.
func TestWhoMayGoOnWithASession(t *testing.T) {
	inWorld(t, func(w *world) {
		c, other := w.leaving(), w.replica()
		hold := c.take("job").Hold
		c.Detach(errCut)
		req := c.resumption(2, claims(true, hold))
		stranger, unknown, first, forged := req, req, req, req
		stranger.Token = "guessed"
		unknown.ID = "00000000-0000-4000-8000-000000000000"
		first.Epoch = 1
		forged.Holds = claims(true, session.Hold{
			Name: "job", Kind: lock.Exclusive, Holder: "#1", Fence: hold.Fence,
			AcquiredBy: 9,
		})
		other.resumeErr(stranger, session.ErrSessionExpired)
		other.resumeErr(unknown, session.ErrSessionExpired)
		other.resumeErr(first, lock.ErrInvalid)
		other.resumeErr(forged, lock.ErrInvalid)
		back, _ := other.resume(req)
		w.resumeErr(req, session.ErrSuperseded) // a copy of the client
		back.Goodbye()
		<-back.Done()
		req.Epoch = 3
		w.resumeErr(req, session.ErrSessionExpired)
		w.free("job")
	})
}

// Request ids go on: an owner is never used again.
func TestRequestsOfAResumedSessionHaveNewIDs(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		c.take("job")
		c.Detach(errCut)
		back, _ := w.resume(c.resumption(2, nil))
		back.Acquire(1, request.Acquire{Name: "other", Kind: lock.Exclusive})
		back.failed(session.ErrRepeated)
		back.take("other")
	})
}

func TestOnlyARequestOfBeforeIsReplaced(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		c.acquire(request.Acquire{Name: "job", InsteadOf: []uint64{1}})
		c.failed(lock.ErrInvalid)
		c.lastID = 20
		c.Detach(errCut)
		back, _ := w.resume(c.resumption(2, nil))
		last := back.lastID
		var many []uint64
		for id := range uint64(17) {
			many = append(many, id+1)
		}
		for _, ids := range [][]uint64{{last + 1}, {0}, {2, 1}, {1, 1}, many} {
			back.acquire(request.Acquire{Name: "job", InsteadOf: ids})
			back.failed(lock.ErrInvalid)
		}
		back.takeAs(request.Acquire{Name: "job", InsteadOf: many[1:]})
	})
}

// TestTheBadHoldIsNamed fails if another one of the holds is named than the one that is not in order, or its field not.
func TestTheBadHoldIsNamed(t *testing.T) {
	for field, spoil := range map[string]func(h *session.HeldLock){
		"resume.holds[1].hold.name":        func(h *session.HeldLock) { h.Hold.Name = "" },
		"resume.holds[1].hold.kind":        func(h *session.HeldLock) { h.Hold.Kind = 0 },
		"resume.holds[1].hold.fence":       func(h *session.HeldLock) { h.Hold.Fence = 0 },
		"resume.holds[1].hold.acquired_by": func(h *session.HeldLock) { h.Hold.AcquiredBy = 9 },
		"resume.holds[1].hold.holder":      func(h *session.HeldLock) { h.Hold.Holder = "#9" },
		"resume.holds[1].hold_count":       func(h *session.HeldLock) { h.Count = lock.MaxHolds + 1 },
		"resume.holds[1].permits":          func(h *session.HeldLock) { h.Permits = lock.MaxPermits + 1 },
		"resume.holds[1].hold":             func(h *session.HeldLock) { h.Hold.Name = "one" },
	} {
		t.Run(field, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.leaving()
				c.lastID = 1
				good := session.Hold{Name: "one", Kind: lock.Exclusive, Holder: "#1", Fence: 1, AcquiredBy: 1}
				other := good
				other.Name = "two"
				holds := claims(true, good, other)
				spoil(&holds[1])
				_, _, err := w.b.Resume(w.t.Context(), c.resumption(2, holds))
				if bad, ok := errors.AsType[*lock.InvalidError](err); !ok || bad.Field != field {
					t.Errorf("got %v, want that it names %s", err, field)
				}
			})
		})
	}
}

func TestNobodyResumesWithMoreThanASessionMayHold(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		c.lastID = 1
		var holds []session.HeldLock
		for i := range 2*testConfig().Limits.LocksPerSession + 1 {
			holds = append(holds, claims(true,
				session.Hold{Name: name(i), Kind: lock.Exclusive, Holder: "#1", Fence: 1, AcquiredBy: 1})...)
		}
		w.resumeErr(c.resumption(2, holds), session.ErrQuota)
		w.resumeErr(c.resumption(2, append(holds[:1:1], holds[0])), lock.ErrInvalid)
		permits := claims(true, session.Hold{Name: "p", Kind: lock.Semaphore, Holder: "#1", Fence: 1, AcquiredBy: 1})
		permits[0].Permits = lock.MaxPermits + 1
		w.resumeErr(c.resumption(2, permits), lock.ErrInvalid)
	})
}

// A fair request is granted, or handed the name, just when its session leaves, and comes back elsewhere: it is still
// before those that came later.
func TestAFairWaiterThatIsGrantedWhileItMovesKeepsItsPlace(t *testing.T) {
	fair := request.Acquire{Name: "job", Kind: lock.Fair}
	for verb, holds := range map[string]func(w, other *world) *world{
		"Release": func(w, _ *world) *world { return w },
		"Acquire": func(_, other *world) *world { return other },
	} {
		t.Run(verb, func(t *testing.T) {
			inWorld(t, func(w *world) {
				other := w.replica()
				holder := holds(w, other).alive()
				hold := holder.takeKind("job", lock.Fair)
				c, later := w.leaving(), other.alive()
				id := c.acquire(fair)
				synctest.Wait()
				later.acquire(fair)
				synctest.Wait()
				w.store.on(verb, func(next func() error) error {
					err := next()
					c.Detach(errCut)
					return err
				})
				holder.release(hold.Hold)
				synctest.Wait()
				back, _ := other.resume(c.resumption(2, nil))
				again := fair
				again.InsteadOf = []uint64{id}
				back.acquire(again)
				got := back.grantedWithin(time.Second)
				for _, e := range later.events() {
					if isGranted(e) {
						t.Fatal("the one that came later was served before")
					}
				}
				back.release(got.Hold)
				later.grantedWithin(time.Second)
			})
		})
	}
}

// TestACancelledFairWaiterIsGivenNoPlaceBack fails if others wait for one that was cancelled and then moved, as it was
// granted the name meanwhile.
func TestACancelledFairWaiterIsGivenNoPlaceBack(t *testing.T) {
	inWorld(t, func(w *world) {
		holder, c, later := w.alive(), w.leaving(), w.replica().alive()
		hold := holder.takeKind("job", lock.Fair)
		fair := request.Acquire{Name: "job", Kind: lock.Fair}
		id := c.acquire(fair)
		synctest.Wait()
		later.acquire(fair)
		synctest.Wait()
		w.store.on("Release", func(next func() error) error {
			err := next()
			c.Cancel(99, id)
			c.Detach(errCut)
			return err
		})
		holder.release(hold.Hold)
		later.grantedWithin(time.Second)
	})
}

// A fair request was granted just before its stream broke, and nobody heard of that. It is made again where another
// request waits for its name, and is refused or left: then it has nothing, and the other one need not wait for the end
// of a lease that nobody knows of.
func TestWhatARequestSucceededToIsNotKeptIfItIsNotGranted(t *testing.T) {
	lease, now := time.Hour, time.Duration(0)
	fair := request.Acquire{Name: "job", Kind: lock.Fair, Lease: &lease}
	for how, end := range map[string]func(back *client, again request.Acquire){
		"refused": func(back *client, again request.Acquire) {
			again.Wait = &now
			back.acquire(again)
		},
		"cancelled": func(back *client, again request.Acquire) {
			target := back.acquire(again)
			back.Cancel(back.id(), target)
		},
		"withdrawn": func(back *client, again request.Acquire) {
			back.acquire(again)
			back.Goodbye()
		},
	} {
		t.Run(how, func(t *testing.T) {
			inWorld(t, func(w *world) {
				c := w.leaving()
				id := c.acquire(fair)
				one[session.Granted](c)
				c.Detach(errCut)
				w.store.on("Succeed", func(next func() error) error {
					err := next()
					time.Sleep(time.Second)
					return err
				})
				other := w.replica()
				waits := other.alive()
				waits.acquire(fair)
				waits.events()
				back, _ := other.resume(c.resumption(2, nil))
				again := fair
				again.InsteadOf = []uint64{id}
				end(back, again)
				time.Sleep(3 * time.Second)
				for _, e := range back.events() {
					if isGranted(e) {
						t.Fatalf("got %#v", e)
					}
				}
				waits.grantedWithin(20 * time.Second)
			})
		})
	}
}
