package redlock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const unary = lock.Owner("00000000-0000-0000-0000-000000000000" + lock.UnarySuffix)

// A member that took a hold late, when others had had the name, does not make its release one.
func TestAReleaseOfALeaseThatEndedIsNotHeld(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		c := claimOf("n", unary)
		c.TTL = 2 * time.Second
		w.take(w.Store, c)
		time.Sleep(3 * time.Second)
		for _, other := range []lock.Owner{"s:#1", "s:#2", "s:#3"} {
			w.give(w.Store, returnOf("n", other, w.take(w.Store, claimOf("n", other)).Fence))
		}
		synctest.Wait()
		w.puts(0, c)
		for _, n := range w.nodes[1:] {
			n.lag(time.Millisecond)
		}
		w.wantRelease(returnOf("n", unary, 0), lock.ErrNotHeld)
		time.Sleep(time.Second)
		w.wantHolders("n", "", "", "", "", "")
	})
}

func (w *world) wantRelease(r lock.Return, want error) {
	w.Helper()
	if _, err := w.Store.Release(w.Context(), r); !errors.Is(err, want) {
		w.Errorf("got %v, want %v", err, want)
	}
}

// What silent members had may decide whether a lease lasted to its release.
func TestWhatASilentMemberHadLeavesAReleaseUnknown(t *testing.T) {
	for name, row := range map[string]struct {
		has, silent []int
		want        error
	}{
		"a majority":                       {[]int{0, 1, 2}, []int{3, 4}, nil},
		"two, and two are silent":          {[]int{0, 1}, []int{3, 4}, lock.ErrOutcomeUnknown},
		"two, and one is silent":           {[]int{0, 1}, []int{4}, lock.ErrOutcomeUnknown},
		"one, and one is silent":           {[]int{0}, []int{4}, lock.ErrNotHeld},
		"two, and those are all there are": {[]int{0, 1}, nil, lock.ErrNotHeld},
	} {
		inWorld(t, 5, Config{}, func(w *world) {
			for _, i := range row.has {
				w.puts(i, claimOf("n", "o"))
			}
			for _, i := range row.silent {
				w.nodes[i].becomes(silent)
			}
			if _, err := w.Store.Release(w.Context(), returnOf("n", "o", 0)); !errors.Is(err, row.want) {
				t.Errorf("%s: got %v, want %v", name, err, row.want)
			}
		})
	}
}

// A repeated release counts what members said to the first try.
func TestARepeatedReleaseCountsWhatWasSaidBefore(t *testing.T) {
	for _, next := range []*lock.Successor{nil, {Owner: "s:#2", TTL: time.Second}} {
		inWorld(t, 5, Config{}, func(w *world) {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			synctest.Wait()
			for _, n := range w.nodes[2:] {
				n.choose(onceNoReply("release"))
			}
			r := returnOf("n", "o", f)
			r.Next = next
			w.wantRelease(r, lock.ErrOutcomeUnknown)
			r.Next = nil
			for _, n := range w.nodes[3:] {
				n.becomes(down)
			}
			_, err := w.Store.Release(w.Context(), r) // perhaps the first try ended it at a majority
			if !errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrOver) {
				t.Errorf("got %v, want it not to be held, and nothing said of before", err)
			}
		})
	}
}

// The answer to the first try may come before the second one, or when that is under way.
func TestALateAnswerCountsForARepeatedRelease(t *testing.T) {
	for _, pause := range []time.Duration{time.Second, 0} {
		inWorld(t, 5, Config{}, func(w *world) {
			f := w.take(w.Store, claimOf("n", "o")).Fence
			synctest.Wait()
			w.nodes[2].becomes(fate{after: 400 * time.Millisecond})
			w.nodes[3].Store.Expire("n")
			w.nodes[4].Store.Expire("n")
			w.wantRelease(returnOf("n", "o", f), lock.ErrOutcomeUnknown)
			time.Sleep(pause)
			w.give(w.Store, returnOf("n", "o", f))
		})
	}
}

// What is known of releases whose outcome is unknown is looked at for a minute, and no longer: other calls share it.
func TestWhatIsKnownOfAReleaseIsForgottenInTime(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		for _, n := range w.nodes[:3] {
			n.choose(once("release", silent))
		}
		w.wantRelease(returnOf("n", "o", f), lock.ErrOutcomeUnknown)
		if time.Sleep(proofTime - time.Second); w.Store.proofs.none() {
			t.Error("it is forgotten too early")
		}
		if time.Sleep(2 * time.Second); !w.Store.proofs.none() {
			t.Error("it is not forgotten")
		}
	})
}

// A hold that an owner takes again is another one than that of which a release was unknown, also if its fence is
// raised.
func TestANewHoldIsNotProvedByAnEarlierRelease(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		w.take(w.Store, claimOf("n", unary))
		synctest.Wait()
		for _, n := range w.nodes[1:] {
			n.choose(once("release", silent))
		}
		w.wantRelease(returnOf("n", unary, 0), lock.ErrOutcomeUnknown)
		w.nodes[2].becomes(down)
		w.take(w.Store, claimOf("n", unary)) // one has it anew
		for _, n := range w.nodes {
			n.becomes(fate{})
			n.Store.Expire("n")
		}
		w.puts(1, claimOf("n", unary)) // late
		w.wantRelease(returnOf("n", unary, 0), lock.ErrNotHeld)
	})
}

// A hold of which the first try found less than a majority is surely over.
func TestARepeatedReleaseOfALostHoldIsNotHeld(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.puts(0, claimOf("n", "o"))
		w.nodes[3].choose(once("release", silent))
		w.nodes[4].becomes(silent)
		w.puts(1, claimOf("n", "o"))
		w.wantRelease(returnOf("n", "o", 0), lock.ErrOutcomeUnknown)
		w.nodes[4].becomes(fate{})
		w.puts(2, claimOf("n", "other"))
		_, err := w.Store.Release(w.Context(), returnOf("n", "o", 0))
		if !errors.Is(err, lock.ErrNotHeld) {
			t.Errorf("got %v, want it not to be held", err)
		}
	})
}

// A hand-over is a release as well: it is none if only a minority had the hold.
func TestAHandOverOfALostHoldIsNoRelease(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.puts(0, claimOf("n", "o"))
		r := returnOf("n", "o", 0)
		r.Next = &lock.Successor{Owner: "s:#2", TTL: time.Second}
		w.wantRelease(r, lock.ErrNotHeld)
		time.Sleep(5 * time.Second)
		w.wantHolders("n", "", "", "", "", "")
	})
}

// Counting down takes a majority that has the hold, too.
func TestANestedHoldIsCountedDownByAMajority(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		c := claimOf("n", "o")
		f := w.take(w.Store, c).Fence
		c.Fence, c.Count = f, 2
		w.take(w.Store, c)
		synctest.Wait()
		for _, n := range w.nodes[:3] {
			n.Store.Expire("n")
		}
		r := returnOf("n", "o", f)
		r.Remaining = 1
		w.wantRelease(r, lock.ErrNotHeld)
	})
}

// Emptied members have not got a lease any more that nobody puts back.
func TestALeaseThatEmptiedMembersForgotIsNotReleased(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Read} {
		inWorld(t, 5, Config{Quarantine: time.Minute}, func(w *world) {
			c := claimOf("n", unary)
			c.Kind = kind
			w.take(w.Store, c)
			synctest.Wait()
			for _, n := range w.nodes[:3] {
				n.restart()
			}
			r := returnOf("n", unary, 0)
			r.Kind = kind
			w.wantRelease(r, lock.ErrNotHeld)
		})
	}
}
