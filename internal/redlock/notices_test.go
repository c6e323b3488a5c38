package redlock

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// said is what a watcher passes on while members tell it something: the causes of ends, with a question mark if it is
// unsure, and what else it is.
func said(x *watcher, n lock.Notice, members ...int) string {
	var all []string
	x.notify = func(n lock.Notice) {
		switch {
		case n.What == lock.NoticeFlushed:
			all = append(all, "flushed")
		case n.What == lock.NoticeEnded && n.Unsure:
			all = append(all, ends[n.Cause]+"?")
		case n.What == lock.NoticeEnded:
			all = append(all, ends[n.Cause])
		}
	}
	for _, i := range members {
		x.hear(i, n)
	}
	return strings.Join(all, " ")
}

func TestTheEndOfAHoldIsSureWhenAMajorityToldOfIt(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		x := w.Store.watcher(nil)
		ended := func(cause lock.EndCause, f lock.Fence) lock.Notice {
			return lock.Notice{What: lock.NoticeEnded, Cause: cause, Fence: f}
		}
		for f := range lock.Fence(2 * keptEnds) {
			said(x, ended(lock.EndReleased, 10+f), 0, 1)
		}
		for _, row := range []struct {
			when    string
			n       lock.Notice
			members []int
			want    string
		}{
			{"those of many readers are remembered", ended(lock.EndReleased, 9+2*keptEnds), []int{2}, "released"},
			{"but not of all", ended(lock.EndReleased, 10), []int{2}, "released?"},
			{"a minority", ended(lock.EndReleased, 1), []int{0, 1}, "released? released?"},
			{"a majority", ended(lock.EndReleased, 1), []int{2}, "released"},
			{"the others, later", ended(lock.EndReleased, 1), []int{3, 4}, ""},
			{"a minority cannot hand over", ended(lock.EndHandedOver, 2), []int{0, 1}, "released? released?"},
			{"a majority can", ended(lock.EndHandedOver, 2), []int{2}, "handed"},
			{"another program has no fences", ended(lock.EndReleased, 0), []int{0, 1, 2}, "released? released? released?"},
			{"two lost their data", lock.Notice{What: lock.NoticeFlushed}, []int{0, 1}, ""},
			{"three did", lock.Notice{What: lock.NoticeFlushed}, []int{2}, "flushed"},
		} {
			if got := said(x, row.n, row.members...); got != row.want {
				t.Errorf("%s: heard %q, want %q", row.when, got, row.want)
			}
		}
	})
}

// A member that does not vote told of attempts that failed. When it votes again those are no ends.
func TestWhatWasToldDuringAQuarantineIsNotSureAfterIt(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		w.nodes[2].restart()
		s := w.another(Config{Quarantine: time.Minute})
		x := s.watcher(nil)
		told := lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased, Fence: 1}
		if got := said(x, told, 0, 1, 2); got != "released? released? released?" {
			t.Errorf("heard %q of two that vote", got)
		}
		time.Sleep(2 * time.Minute)
		for _, what := range []lock.What{lock.NoticeDeaf, lock.NoticeListening} {
			if got := said(x, lock.Notice{What: what}, 3); got != "" || s.quarantined(s.members[2]) {
				t.Errorf("heard %q when it votes again", got)
			}
		}
	})
}

// What a majority is heard by and what it is not comes in this order.
func TestWhoIsSlowToHearLearnsInOrderWhatIsHeard(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		var mu sync.Mutex
		var heard []lock.What
		l := &listening{s: w.Store, notify: func(n lock.Notice) {
			if n.What == lock.NoticeListening {
				time.Sleep(10 * time.Millisecond)
			}
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, n.What)
		}}
		l.hears(0, true)
		l.hears(1, true)
		go l.hears(2, true)
		time.Sleep(time.Millisecond)
		l.hears(0, false)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if want := []lock.What{lock.NoticeListening, lock.NoticeDeaf}; !slices.Equal(heard, want) {
			t.Errorf("heard %v, want %v", heard, want)
		}
	})
}

// forcible is a member that a test has tell of forced releases.
type forcible struct {
	lock.Store
	tell func(name string)
}

func (f *forcible) ListenForced(notify func(string)) func() {
	f.tell = notify
	return func() {}
}

func TestForcedReleasesAreHeard(t *testing.T) {
	all := make([]lock.Store, 5)
	for i := range all {
		all[i] = &forcible{}
	}
	s, err := New(Config{}, all, zap.NewNop(), nil)
	must(t, err)
	var heard []string
	s.ListenForced(func(name string) { heard = append(heard, name) })
	tell := func(name string, members ...int) {
		for _, i := range members {
			all[i].(*forcible).tell(name)
		}
	}
	tell("n", 0, 1, 2)
	tell("", 3, 4, 3)
	if want := []string{"n", "n", "n"}; !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
	tell("", 0)
	if heard[len(heard)-1] != "" {
		t.Error("a forced release could have been missed by a majority, and nobody says so")
	}
}
