package redlock

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Masters that are restarted one after the other without their data do not lose what is renewed meanwhile.
func TestAHoldOutlivesTheRestartOfEachMember(t *testing.T) {
	for _, ttl := range []time.Duration{10 * time.Second, 0} { // prolonged, and only verified
		inWorld(t, 5, Config{Quarantine: time.Minute}, func(w *world) {
			c := claimOf("n", "o")
			c.TTL = time.Hour
			f := w.take(w.Store, c).Fence
			synctest.Wait() // all members have it
			for _, n := range w.nodes {
				n.restart()
				r := renewalOf("n", "o", f)
				r.TTL, r.Sole = ttl, true
				if err := w.renew(r); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			w.wantHolders("n", "o", "o", "o", "o", "o")
			w.give(w.Store, returnOf("n", "o", f))
		})
	}
}

func TestAHoldIsGoneWhenNoMajorityHasIt(t *testing.T) {
	for _, c := range []struct {
		lose, force int
		want        error
		reason      lock.LostReason
	}{
		{2, 0, nil, 0},
		{0, 2, nil, 0},
		{1, 1, nil, 0},
		{3, 0, &lock.GoneError{}, lock.LostData},
		{0, 3, &lock.GoneError{}, lock.LostForced},
		{2, 1, &lock.GoneError{}, lock.LostData},
	} {
		inWorld(t, 5, Config{}, func(w *world) {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			synctest.Wait()
			for i, n := range w.nodes {
				if i < c.lose {
					n.restart()
				} else if i < c.lose+c.force {
					n.Expire("n")
				}
			}
			r := renewalOf("n", "o", f)
			r.Seen = time.Now()
			err := w.renew(r)
			gone, ok := errors.AsType[*lock.GoneError](err)
			if ok != (c.want != nil) || ok && gone.Reason != c.reason || !ok && err != nil {
				t.Errorf("%d lost, %d forced: got %v, want %v", c.lose, c.force, err, c.reason)
			}
		})
	}
}

// The caller uses its renewals again at once; each hold is answered once, whatever the members do.
func TestRenewalsOfManyHolds(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"well":         func(*world) {},
		"one far away": func(w *world) { w.nodes[0].lag(700 * time.Millisecond) },
		"one silent":   func(w *world) { w.nodes[0].becomes(silent) },
	} {
		inWorld(t, 3, Config{}, func(w *world) {
			rs := make([]lock.Renewal, 50)
			for i := range rs {
				c := claimOf(fmt.Sprint(i), "o")
				rs[i] = renewalOf(c.Name, "o", w.take(w.Store, c).Fence)
			}
			synctest.Wait()
			fault(w)
			begun := time.Now()
			calls := make([]int, len(rs))
			w.Renew(w.Context(), rs, func(i int, err error) {
				calls[i]++
				if err != nil {
					w.Errorf("%s: %v", name, err)
				}
			})
			clear(rs)
			if took := time.Since(begun); took > 10*time.Millisecond {
				t.Errorf("%s: it took %v", name, took)
			}
			for i, n := range calls {
				if n != 1 {
					t.Errorf("%s: hold %d was answered %d times", name, i, n)
				}
			}
		})
	}
	inWorld(t, 3, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		synctest.Wait()
		w.nodes[0].becomes(down)
		w.nodes[1].becomes(down)
		if err := w.renew(renewalOf("n", "o", f)); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %v: one member prolonged it", err)
		}
		w.nodes[2].becomes(down)
		if err := w.renew(renewalOf("n", "o", f)); !errors.Is(err, lock.ErrNoQuorum) {
			t.Errorf("got %v, want no majority", err)
		}
	})
}

// A member that came back without its data does not help to form a second majority.
func TestAMemberThatLostItsDataDoesNotVote(t *testing.T) {
	for _, quarantine := range []time.Duration{0, 20 * time.Second} {
		inWorld(t, 3, Config{Quarantine: quarantine}, func(w *world) {
			w.nodes[2].becomes(down)
			w.take(w.Store, claimOf("n", "o"))
			synctest.Wait()
			w.nodes[2].becomes(fate{})
			w.nodes[0].restart()
			_, err := w.Store.Acquire(w.Context(), claimOf("n", "other"))
			if safe := err != nil; safe != (quarantine > 0) {
				t.Errorf("quarantine %v: the other got %v while the first holds the name", quarantine, err)
			}
			if quarantine == 0 {
				return
			}
			w.take(w.Store, claimOf("m", "other")) // the others suffice
			time.Sleep(w.drifted(quarantine))      // for as long as members count the longest lease
			w.nodes[1].becomes(down)
			w.take(w.Store, claimOf("n", "other"))
		})
	}
}

// A hold that a member took which does not vote is not prolonged for somebody who was never told to have it.
func TestWhoWasNotToldOfAHoldCannotProlongItByMembersThatDoNotVote(t *testing.T) {
	inWorld(t, 5, Config{Quarantine: time.Minute}, func(w *world) {
		w.nodes[3].becomes(down)
		w.nodes[4].becomes(down)
		w.take(w.Store, claimOf("n", "o"))
		synctest.Wait()
		w.nodes[3].becomes(fate{})
		w.nodes[4].becomes(fate{})
		w.nodes[2].restart()
		for i := range 2 {
			w.nodes[i].choose(once("acquire", silent))
		}
		if _, err := w.Store.Acquire(w.Context(), claimOf("n", "other")); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %v, want an unknown outcome", err)
		}
		if left, err := w.Store.Extend(w.Context(), renewalOf("n", "other", 0)); err == nil {
			t.Errorf("the other has it for %v, and the first one does until its lease ends", left)
		}
	})
}
