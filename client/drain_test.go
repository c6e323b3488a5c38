package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

func TestADrainingReplicaIsLeftWithAllLocks(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		var seen statuses
		c := f.dialAt(t, both, client.WithOnStatus(seen.add))
		l := mustLock(t, c, "n", client.Holder("h"))
		old := f.session(0)
		var wasThere error
		var o opened
		f.setHook(func(s *fakeSession, r *lockdv1.SessionRequest) bool {
			if r.GetOpen() != nil {
				wasThere = old.stream.Context().Err()
			}
			return o.hook(s, r)
		})
		old.send(0, &lockdv1.Draining{ReconnectWithin: durationpb.New(time.Minute)})
		synctest.Wait()
		if f.opens() != 2 || wasThere != nil || old.stream.Context().Err() == nil {
			t.Errorf("%d streams; the old one when the new one came: %v, afterwards: %v", f.opens(), wasThere,
				old.stream.Context().Err())
		}
		inner := mustLock(t, c, "n", client.Holder("h"))
		if err := l.Err(); err != nil || inner.Fence() != l.Fence() {
			t.Errorf("after the move: %v, fences %d and %d", err, l.Fence(), inner.Fence())
		}
		for _, l := range []*client.Lock{inner, l} {
			if err := l.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if seen.had(client.Disconnected) || seen.had(client.Interrupted) || seen.last().State != client.Connected {
			t.Errorf("told %+v", seen.seen)
		}
	})
}

// While no other replica takes the session it stays where it is.
func TestADrainingReplicaServesUntilAnotherOneDoes(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dialAt(t, both)
		l := mustLock(t, c, "n")
		f.setDown(addrA, true)
		f.setDown(addrB, true)
		f.session(0).send(0, &lockdv1.Draining{ReconnectWithin: durationpb.New(time.Minute)})
		time.Sleep(50 * time.Second)
		mustLock(t, c, "m")
		if err := l.Err(); err != nil || f.opens() != 1 {
			t.Errorf("%v, %d streams", err, f.opens())
		}
		f.setDown(addrB, false)
		time.Sleep(5 * time.Second)
		if err := l.Err(); err != nil || f.opens() != 2 {
			t.Errorf("%v, %d streams", err, f.opens())
		}
	})
}

func TestTheOnlyAddressIsConnectedAgainWithinTheTimeGiven(t *testing.T) {
	kept(t, 30*time.Second, func(t *testing.T, f *fake) {
		c := f.dial(t)
		l := mustLock(t, c, "n")
		f.session(0).send(0, &lockdv1.Draining{ReconnectWithin: durationpb.New(time.Minute)})
		time.Sleep(time.Minute)
		if err := l.Err(); err != nil || f.opens() != 2 {
			t.Errorf("%v, %d streams", err, f.opens())
		}
	})
}

// Close does not wait for another stream. What is held then runs out by itself.
func TestCloseWithoutAStream(t *testing.T) {
	for what, holds := range map[string]bool{"something is held": true, "nothing is held": false} {
		t.Run(what, func(t *testing.T) {
			kept(t, 30*time.Second, func(t *testing.T, f *fake) {
				c := f.dialAt(t, addrA)
				l := mustLock(t, c, "n")
				if !holds {
					if err := l.Unlock(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				f.setDown(addrA, true)
				f.session(0).end(errCut)
				time.Sleep(time.Second)
				begun := time.Now()
				if err := c.Close(); holds {
					wantError(t, err, client.ErrOutcomeUnknown)
				} else if err != nil {
					t.Error(err)
				}
				if d := time.Since(begun); d != 0 {
					t.Errorf("it took %v", d)
				}
			})
		})
	}
}
