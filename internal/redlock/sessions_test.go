package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const sessionID = "8d5e6cbe-5c1a-4f1e-9a5b-0d3b3f0b6a11"

func (n *node) TakeSession(ctx context.Context, r lock.SessionRecord, ttl time.Duration) error {
	_, err := meet(ctx, n, "take session", func() (int, error) {
		return 0, n.Store.TakeSession(context.Background(), r, ttl)
	})
	return err
}

func (n *node) EndSession(ctx context.Context, id string, epoch uint64) error {
	_, err := meet(ctx, n, "end session", func() (int, error) {
		return 0, n.Store.EndSession(context.Background(), id, epoch)
	})
	return err
}

func (n *node) StartKeepSession(k lock.SessionKeep, done func(error)) {
	go func() {
		_, err := meet(context.Background(), n, "keep session", func() (int, error) {
			told := make(chan error, 1)
			n.Store.StartKeepSession(k, func(err error) { told <- err })
			return 0, <-told
		})
		done(err)
	}()
}

// recordOf is the record of an attempt.
func recordOf(epoch uint64, replica string) lock.SessionRecord {
	return lock.SessionRecord{ID: sessionID, Epoch: epoch, Nonce: replica, TokenHash: "hash", Replica: replica}
}

// keep prolongs a record, and has it made again if again is true.
func (w *world) keep(s *Store, r lock.SessionRecord, again bool) error {
	told := make(chan error, 1)
	s.StartKeepSession(lock.SessionKeep{SessionRecord: r, TTL: time.Minute, Again: again}, func(err error) { told <- err })
	return <-told
}

// A session went on at a replica that one member did not hear, and another member has forgotten it. The two do not give
// it back to the replica that it left: what that takes back then, the client believes to hold.
func TestMembersThatForgotASessionDoNotSayWhoseItIs(t *testing.T) {
	for _, quarantine := range []time.Duration{0, 20 * time.Second} {
		inWorld(t, 3, Config{Quarantine: quarantine}, func(w *world) {
			before, after := recordOf(1, "before"), recordOf(2, "after")
			if err := w.Store.TakeSession(w.Context(), before, time.Minute); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			w.nodes[0].becomes(down)
			if err := w.another(Config{Quarantine: quarantine}).TakeSession(w.Context(), after, time.Minute); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			w.nodes[0].becomes(fate{})
			w.nodes[1].restart()
			_ = w.keep(w.Store, before, true) // before anybody asks, the member that forgot it has it again
			for _, err := range []error{
				w.keep(w.Store, before, false), w.EndSession(w.Context(), sessionID, before.Epoch),
			} {
				if safe := errors.Is(err, lock.ErrOutcomeUnknown); safe != (quarantine > 0) {
					t.Errorf("quarantine %v: got %v", quarantine, err)
				}
			}
		})
	}
}

// A member that may have forgotten whose a session is has answered. It is not silent.
func TestWhoMayHaveForgottenASessionIsNotSilent(t *testing.T) {
	inWorld(t, 3, Config{Quarantine: time.Minute}, func(w *world) {
		r := recordOf(1, "replica")
		if err := w.TakeSession(w.Context(), r, time.Minute); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.nodes[0].restart()
		for _, again := range []bool{true, false} { // it has it again, and then is asked whose it is
			if err := w.keep(w.Store, r, again); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if w.Store.members[0].silent.Load() {
				t.Error("it is silent")
			}
		}
	})
}
