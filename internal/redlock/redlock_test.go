package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A minority that is dead, silent or far away costs nobody any time.
func TestAMinoritySlowsNobody(t *testing.T) {
	const far = 500 * time.Millisecond
	healthy := lapOf(t, func(*world) {})
	if healthy == 0 {
		t.Fatal("nothing was measured")
	}
	for name, fault := range map[string]func(w *world){
		"one down":                func(w *world) { w.nodes[0].becomes(down) },
		"one silent":              func(w *world) { w.nodes[1].becomes(silent) },
		"one that does not reply": func(w *world) { w.nodes[2].becomes(fate{noReply: true}) },
		"one after 500 ms":        func(w *world) { w.nodes[3].lag(far) },
		"two silent":              func(w *world) { w.nodes[0].becomes(silent); w.nodes[4].becomes(silent) },
		"two after 500 ms":        func(w *world) { w.nodes[0].lag(far); w.nodes[4].lag(far) },
	} {
		if took := lapOf(t, fault); took > healthy*3/2 {
			t.Errorf("%s: it takes %v, and %v if all are well", name, took, healthy)
		}
	}
}

// lapOf is how long a hold takes from its acquisition to its release, with all that may happen to it, if members answer
// after 2 ms but for the fault.
func lapOf(t *testing.T, fault func(w *world)) (took time.Duration) {
	inWorld(t, 5, Config{}, func(w *world) {
		for _, n := range w.nodes {
			n.lag(2 * time.Millisecond)
		}
		fault(w)
		begun := time.Now()
		for range 20 {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			if _, err := lock.Await(w.Context(), w.Store.StartAcquire, claimOf("n", "other")); !errors.Is(err, lock.ErrHeld) {
				w.Errorf("got %v, want it to be held", err)
			}
			if err := w.renew(renewalOf("n", "o", f)); err != nil {
				w.Error(err)
			}
			if _, err := lock.Await(w.Context(), w.Store.StartExtend, renewalOf("n", "o", f)); err != nil {
				w.Error(err)
			}
			if st, err := w.Store.Look(w.Context(), "n"); err != nil || st.Owner != "o" {
				w.Errorf("got %+v, %v", st, err)
			}
			if _, err := w.Store.Probe(w.Context()); err != nil {
				w.Error(err)
			}
			w.give(w.Store, returnOf("n", "o", f))
		}
		took = time.Since(begun)
	})
	return took
}

// Several claimants that meet do not meet for ever.
func TestASplitVoteEnds(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for i, n := range w.nodes {
			n.lag(time.Duration(1+i) * time.Millisecond)
		}
		for round := range 50 {
			granted := make(chan lock.Owner, 3)
			begun := time.Now()
			for i := range 3 {
				o := lock.Owner(fmt.Sprintf("s:#%d", 3*round+i)) // no other replica has an owner of that name
				s := w.another(Config{})
				go func() {
					for tries := 0; ; tries++ {
						_, err := lock.Await(context.Background(), s.StartAcquire, claimOf("n", o))
						if err == nil {
							granted <- o
							return
						}
						held, ok := errors.AsType[*lock.HeldError](err)
						if !ok || held.RetryAfter > time.Second {
							granted <- ""
							return
						}
						time.Sleep(held.RetryAfter)
					}
				}()
			}
			winners := 0
			for range 3 {
				if <-granted != "" {
					winners++
				}
			}
			if took := time.Since(begun); winners != 1 || took > time.Second {
				t.Fatalf("%d were granted in %v", winners, took)
			}
			synctest.Wait()
			for _, n := range w.nodes {
				n.Expire("n")
			}
		}
	})
}
