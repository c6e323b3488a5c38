package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// An owner is remembered for as long as releases of its attempt may be carried out.
func TestAnAbandonedAttemptIsRememberedUntilItsLastRelease(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 30 * time.Second, 10 * time.Minute} {
		inWorld(t, 5, Config{}, func(w *world) {
			w.nodes[3].becomes(silent)
			w.nodes[4].becomes(silent)
			other := claimOf("n", "other")
			other.TTL = time.Hour
			w.puts(2, other)
			c := claimOf("n", "o#1")
			c.TTL = ttl
			if _, err := w.Store.Acquire(w.Context(), c); !errors.Is(err, lock.ErrHeld) {
				t.Fatal(err)
			}
			begun, last, asked := time.Now(), time.Now(), w.nodes[3].called("release")
			for time.Since(begun) < time.Hour && w.Store.leftovers.Load()+w.Store.underWay.Load() > 0 {
				time.Sleep(100 * time.Millisecond)
				if n := w.nodes[3].called("release"); n > asked {
					asked, last = n, time.Now()
				}
			}
			w.Store.abandoned.mu.Lock()
			end := w.Store.abandoned.known[holding{"n", "o#1"}].end
			w.Store.abandoned.mu.Unlock()
			if !last.Add(w.cfg.CallTimeout + underWay).Before(end) {
				t.Errorf("TTL %v: a release was begun after %v, and the owner forgotten after %v", ttl, last.Sub(begun),
					end.Sub(begun))
			}
			if left := end.Sub(begun); left > ttl+time.Minute {
				t.Errorf("TTL %v: the owner is remembered for %v", ttl, left)
			}
		})
	}
}

// If too many owners are abandoned to be known, all count as such until those that are not known would be forgotten.
// They are not looked through each time.
func TestMoreAbandonedAttemptsThanAreKnownMakeAllOwnersSuch(t *testing.T) {
	t.Parallel()
	inWorld(t, 3, Config{}, func(w *world) {
		for i := range maxAbandoned + 1000 {
			w.Store.abandon(time.Minute, claimOf("n", lock.Owner(fmt.Sprint("o#", i))))
		}
		if !w.Store.isAbandoned(holding{"n", "other"}) || w.Store.abandoned.len() > maxAbandoned {
			t.Errorf("%d are known, and who is not is told as its own what is being undone", w.Store.abandoned.len())
		}
		time.Sleep(time.Minute + time.Second)
		w.Store.abandon(time.Minute, claimOf("n", "last"))
		if w.Store.isAbandoned(holding{"n", "other"}) || w.Store.abandoned.len() > 1 {
			t.Errorf("%d are known when they are over", w.Store.abandoned.len())
		}
	})
}

// To free one name more by force costs the same however many were a moment ago: all who acquire wait for it.
func TestManyNamesAreFreedByForceQuickly(t *testing.T) {
	var s Store
	begun := time.Now()
	for i := range 20_000 {
		for range 5 { // members
			s.forced.put(strconv.Itoa(i), time.Now(), time.Hour)
		}
	}
	if took := time.Since(begun); took > 20*time.Second { // minutes if each looked at all
		t.Errorf("it took %v", took)
	}
	if !s.forcedSince([]lock.Claim{{Name: "0"}}, begun) || s.forcedSince([]lock.Claim{{Name: "0"}}, time.Now()) {
		t.Error("a name that was freed is forgotten, or when")
	}
}

// Names that were freed by force are forgotten when nobody asked before, but not while they were freed again since.
func TestNamesThatWereFreedByForceAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Store
		begun := time.Now()
		s.forced.put("again", time.Now(), time.Second)
		s.forced.put("once", time.Now(), time.Second)
		time.Sleep(900 * time.Millisecond)
		s.forced.put("again", time.Now(), time.Second)
		time.Sleep(900 * time.Millisecond)
		s.forced.put("other", time.Now(), time.Second)
		for name, want := range map[string]bool{"again": true, "once": false, "other": true} {
			if got := s.forcedSince([]lock.Claim{{Name: name}}, begun); got != want {
				t.Errorf("%s is known: %v", name, got)
			}
		}
	})
}

const unary = lock.Owner("00000000-0000-0000-0000-000000000000" + lock.UnarySuffix)

// What is known of releases whose outcome is unknown is looked at for a minute, and no longer: other calls share it.
func TestWhatIsKnownOfAReleaseIsForgottenInTime(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		f := w.take(w.Store, claimOf("n", "o")).Fence
		for _, n := range w.nodes[:3] {
			n.choose(once("release", silent))
		}
		if _, err := w.Store.Release(w.Context(), returnOf("n", "o", f)); !errors.Is(err, lock.ErrOutcomeUnknown) {
			t.Errorf("got %v", err)
		}
		if time.Sleep(proofTime - time.Second); w.Store.proofs.none() {
			t.Error("it is forgotten too early")
		}
		if time.Sleep(2 * time.Second); !w.Store.proofs.none() {
			t.Error("it is not forgotten")
		}
	})
}
