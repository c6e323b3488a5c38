package broker_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// stays sends heartbeats for a session for two TTLs. As soon as the name is not held with the fence any more, the
// client must have been told.
func (w *world) stays(c *client, name string, fence lock.Fence) {
	w.t.Helper()
	for range 20 {
		time.Sleep(c.TTL() / 10)
		c.Hear()
		if st := w.look(name); !st.Held || st.Fence != fence {
			w.t.Fatalf("the client was told %+v, and the store has %+v", c.events(), st)
		}
	}
}

// Two attempts come to the same replica, and the older one is slow.
func TestOfTwoAttemptsTheLaterOneHasTheSession(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		hold := c.take("job").Hold
		c.Detach(errCut)
		other, store := w.severable()
		slow := make(chan struct{})
		store.on("Extend", func(next func() error) error {
			<-slow
			return next()
		})
		first := make(chan error, 1)
		go func() {
			_, _, err := other.b.Resume(w.t.Context(), c.resumption(2, claims(true, hold)))
			first <- err
		}()
		synctest.Wait()
		store.onCall("Extend", nil)
		back, lost := other.resume(c.resumption(3, claims(true, hold)))
		close(slow)
		if err := <-first; !isError(err, session.ErrSuperseded) || len(lost) > 0 {
			t.Errorf("the slow one: %v; lost %+v", err, lost)
		}
		other.b.Drain(time.Second)
		one[session.Draining](back)
		w.stays(back, "job", hold.Fence)
		if all := other.b.Sessions("", 10); len(all) != 1 || all[0].Locks != 1 {
			t.Errorf("the replica has %+v", all)
		}
	})
}

// A call that writes the record has an unknown outcome, and is carried out after the session has ended. It does not
// bring the record back: nobody goes on with a session whose locks are being released.
func TestARecordThatIsWrittenAfterTheEndIsNone(t *testing.T) {
	inWorld(t, func(w *world) {
		here, store := w.severable()
		var late []func()
		store.on("KeepSession", func(next func() error) error {
			late = append(late, func() { _ = next() })
			return errUnknown
		})
		c := here.leaving()
		synctest.Wait()
		store.onCall("KeepSession", nil)
		hold := c.take("job").Hold
		c.Goodbye()
		<-c.Done()
		for _, run := range late {
			run()
		}
		synctest.Wait()
		w.resumeErr(c.resumption(2, claims(true, hold)), session.ErrSessionExpired)
	})
}

// The record of a session could not be written when it began. It is written soon, and not only when the client is heard
// again.
func TestTheFirstRecordIsWrittenAgainSoon(t *testing.T) {
	for what, row := range map[string]struct {
		fails int
		error error
	}{
		"unavailable": {3, lock.ErrUnavailable},
		"unknown":     {3, lock.ErrOutcomeUnknown},
		"for long":    {1 << 20, lock.ErrUnavailable},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, func(w *world) {
				here, store := w.severable()
				var tries atomic.Int32
				store.on("KeepSession", func(next func() error) error {
					if int(tries.Add(1)) <= row.fails {
						return row.error
					}
					return next()
				})
				c := here.leaving()
				time.Sleep(c.TTL() / 3)
				c.Detach(errCut)
				if row.fails < 10 {
					w.resume(c.resumption(2, nil))
				} else if n := tries.Load(); n > 10 {
					t.Errorf("it was written %d times", n)
				}
			})
		})
	}
}

// A replica that is full takes back those whose streams broke.
func TestAFullReplicaTakesItsOwnSessionsBack(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.Sessions, cfg.Limits.SessionsPerAddress = 2, 2
	inWorldWith(t, cfg, func(w *world) {
		var all []*client
		come := func(open func(session.OpenRequest) (*broker.Session, error)) error {
			slot, err := w.b.Arrive("10.0.0.1:1")
			if err != nil {
				return err
			}
			defer slot.Leave()
			s, err := open(session.OpenRequest{ComesBack: true, Slot: slot, Client: session.Client{Peer: "10.0.0.1:1"}})
			if err == nil {
				all = append(all, &client{Session: s, t: t})
			}
			return err
		}
		for range 2 {
			must(t, come(w.b.Open))
		}
		if err := come(w.b.Open); !isError(err, session.ErrQuota) {
			t.Fatalf("one too many: %v", err)
		}
		for i, c := range all[:2] {
			hold := c.take(name(i)).Hold
			c.Detach(errCut)
			req := c.resumption(2, claims(true, hold))
			err := come(func(open session.OpenRequest) (*broker.Session, error) {
				req.OpenRequest = open
				s, _, err := w.b.Resume(w.t.Context(), req)
				return s, err
			})
			if err != nil {
				t.Errorf("session %d comes back: %v", i, err)
			}
		}
		if err := come(w.b.Open); !isError(err, session.ErrQuota) {
			t.Errorf("one too many: %v", err)
		}
	})
}

// A process was copied with its token. Both copies go on at once, each at another replica: one has the session, and the
// other hears that at once, and may hold nothing.
func TestOfTwoCopiesOfAClientOneGoesOn(t *testing.T) {
	inWorld(t, func(w *world) {
		for round := range 5 {
			c := w.leaving()
			hold := c.take(name(round)).Hold
			c.Detach(errCut)
			type outcome struct {
				s   *broker.Session
				err error
			}
			outcomes := make(chan outcome, 2)
			for _, at := range []*world{w.replica(), w.replica()} {
				go func() {
					s, _, err := at.b.Resume(w.t.Context(), c.resumption(2, claims(true, hold)))
					outcomes <- outcome{s, err}
				}()
			}
			won, other := <-outcomes, <-outcomes
			if won.err != nil {
				won, other = other, won
			}
			if won.err != nil || !isError(other.err, session.ErrSuperseded) {
				t.Fatalf("%v and %v", won.err, other.err)
			}
			back := &client{Session: won.s, t: w.t, lastID: c.lastID}
			w.stays(back, name(round), hold.Fence)
			back.release(hold)
		}
	})
}

// A request has had many ids, and wants several names. What it left behind is undone in the background when the
// store is silent: its answer does not wait for each of them.
func TestARequestThatGoesOnDoesNotWaitForASilentStore(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.leaving()
		var old []uint64
		for i := range 8 {
			old = append(old, c.acquire(request.Acquire{Name: name(i)}))
			one[session.Granted](c)
		}
		c.Detach(errCut)
		other, store := w.severable()
		back, _ := other.resume(c.resumption(2, nil))
		store.on("Release", func(func() error) error {
			time.Sleep(time.Second)
			return lock.ErrOutcomeUnknown
		})
		more := []request.Item{{Name: "task", Kind: lock.Exclusive}, {Name: "work", Kind: lock.Exclusive}}
		back.acquire(request.Acquire{Name: "job", More: more, InsteadOf: old})
		time.Sleep(4 * time.Second)
		one[session.Granted](back)
		store.well()
		time.Sleep(10 * time.Second)
	})
}
