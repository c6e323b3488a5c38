package redlock

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Whether nobody has a name is told, also if members that do not answer could make a majority for one of the others.
// The pause is measured by the round to a majority, not by the wait for the others.
func TestAClashIsTold(t *testing.T) {
	const round = 4 * time.Millisecond
	for what, c := range map[string]struct {
		owners []lock.Owner // at the members
		absent fate         // of those that have none of them
		clash  bool
	}{
		"three owners at five members":            {[]lock.Owner{"", "a", "a", "b", "b"}, fate{}, true},
		"two owners, and two members are away":    {[]lock.Owner{"", "a", "b"}, down, true},
		"two owners, and two members are silent":  {[]lock.Owner{"", "a", "b"}, silent, true},
		"one owner, and two members are silent":   {[]lock.Owner{"", "a", "a"}, silent, true},
		"a majority, and two members are silent":  {[]lock.Owner{"a", "a", "a"}, silent, false},
		"a majority, and two members are away":    {[]lock.Owner{"a", "a", "a"}, down, false},
		"a majority of five":                      {[]lock.Owner{"", "", "a", "a", "a"}, fate{}, false},
		"all":                                     {[]lock.Owner{"a", "a", "a", "a", "a"}, fate{}, false},
		"one of five, which is enough with three": {[]lock.Owner{"", "", "a", "b", "b"}, fate{}, true},
	} {
		inWorld(t, 5, Config{}, func(w *world) {
			for i, n := range w.nodes {
				n.lag(round)
				switch {
				case i >= len(c.owners):
					n.becomes(c.absent)
				case c.owners[i] != "":
					w.puts(i, claimOf("n", c.owners[i]))
				}
			}
			_, err := w.Store.Acquire(w.Context(), claimOf("n", "o#1"))
			held, ok := errors.AsType[*lock.HeldError](err)
			if !ok || held.Clash != c.clash {
				t.Fatalf("%s: got %+v, %v, want a clash: %v", what, held, err, c.clash)
			}
			switch {
			case c.clash && (held.RetryAfter > 4*round+splitPause || held.Apart > 3*round+splitPause):
				t.Errorf("%s: got %+v, want short pauses", what, held)
			case !c.clash && (held.RetryAfter < 9*time.Second || held.Apart > 3*round+splitPause):
				t.Errorf("%s: got %+v, want the lease", what, held)
			}
		})
	}
}

// Those who wait for a hold hear of its release at the same moment. They ask apart only if an attempt that meets others
// lasts until members are given up.
func TestWaitersAskApartWhileMembersAreSilent(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		for _, n := range w.nodes {
			n.lag(time.Millisecond)
		}
		apart := func() (d time.Duration) {
			for range 20 {
				_, err := w.Store.Acquire(w.Context(), claimOf("n", "o#1"))
				held, ok := errors.AsType[*lock.HeldError](err)
				if !ok || held.Clash {
					t.Fatalf("got %+v, %v", held, err)
				}
				d = max(d, held.Apart)
			}
			return d
		}
		f := w.take(w.Store, claimOf("n", "o")).Fence
		if d := apart(); d != 0 {
			t.Errorf("all answer: %v", d)
		}
		w.nodes[4].becomes(silent)
		w.puts(0, claimOf("m", "a"))
		w.puts(1, claimOf("m", "b"))
		if _, err := w.Store.Acquire(w.Context(), claimOf("m", "c#1")); !errors.Is(err, lock.ErrHeld) {
			t.Fatal(err)
		}
		if d := apart(); d == 0 {
			t.Error("one is silent, and all ask at once")
		}
		w.nodes[4].lag(time.Millisecond)
		if err := w.renew(renewalOf("n", "o", f)); err != nil {
			t.Error(err)
		}
		time.Sleep(silenceTime)
		w.take(w.Store, claimOf("other", "o"))
	})
}
