package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A session that was ended by force is over for whoever has it, also if some members did not know of it, or of its last
// attempt, and another one does not hear that it ended.
func TestAForcedEndOfASessionIsOneForWhoeverHasIt(t *testing.T) {
	record := func(epoch uint64) lock.SessionRecord {
		return lock.SessionRecord{ID: "s", Epoch: epoch, Nonce: "a", TokenHash: "t"}
	}
	for what, begin := range map[string]func(w *world, without func()){
		"members were away when it began": func(w *world, without func()) {
			without()
			must(w, w.Store.TakeSession(w.Context(), record(1), 10*time.Minute))
		},
		"members were away when it moved": func(w *world, without func()) {
			must(w, w.Store.TakeSession(w.Context(), record(1), 10*time.Minute))
			time.Sleep(time.Second)
			without()
			must(w, w.Store.TakeSession(w.Context(), record(2), 10*time.Minute))
		},
	} {
		t.Run(what, func(t *testing.T) {
			inWorld(t, 5, Config{}, func(w *world) {
				begin(w, func() {
					w.nodes[3].becomes(down)
					w.nodes[4].becomes(down)
				})
				synctest.Wait()
				for _, n := range w.nodes {
					n.becomes(fate{})
				}
				w.nodes[0].becomes(silent)
				was, err := w.Store.ForceEndSession(w.Context(), "s")
				if must(w, err); !was {
					w.Error("there was no session")
				}
				synctest.Wait()
				w.nodes[0].becomes(fate{})
				for _, after := range []time.Duration{0, 2 * time.Minute} {
					time.Sleep(after)
					epoch := uint64(2)
					if what == "members were away when it began" {
						epoch = 1
					}
					k := lock.SessionKeep{SessionRecord: record(epoch), TTL: 10 * time.Minute, Again: true}
					if err := w.keepSession(k); !errors.Is(err, lock.ErrSessionGone) {
						w.Errorf("after %v it is kept: %v", after, err)
					}
				}
				must(w, w.Store.EndSession(w.Context(), "s", 2))
			})
		})
	}
}

// keep prolongs the record of a session.
func (w *world) keepSession(k lock.SessionKeep) error {
	told := make(chan error, 1)
	w.Store.StartKeepSession(k, func(err error) { told <- err })
	return <-told
}
