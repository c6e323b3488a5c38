package watching_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// shown is a store that shows and tells what a test says.
type shown struct {
	look time.Duration // for how long one takes after it has seen

	mu     sync.Mutex // guards the fields below
	sight  lock.Sight
	bare   int // Redisson's messages, which are told at a look
	notify func(lock.Notice)
}

func (s *shown) Watch(_ string, notify func(lock.Notice)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = notify
	notify(lock.Notice{What: lock.NoticeListening})
	return func() {}
}

func (s *shown) See(context.Context, string) (lock.Sight, error) {
	s.mu.Lock()
	st := s.sight
	s.mu.Unlock()
	time.Sleep(s.look)
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.bare {
		s.notify(lock.Notice{What: lock.NoticeEnded, Cause: lock.EndReleased})
	}
	s.bare = 0
	return st, nil
}

// show has the name held by these from now on, and waits until that is seen.
func (s *shown) show(holds ...lock.SeenHold) {
	s.change(holds...)
	time.Sleep(50 * time.Millisecond)
}

// change has the name held by these from now on.
func (s *shown) change(holds ...lock.SeenHold) {
	s.mu.Lock()
	s.sight.Tracked, s.sight.Holds = true, holds
	for _, h := range holds {
		s.sight.Fence = max(s.sight.Fence, h.Fence)
	}
	s.mu.Unlock()
	s.says(lock.NoticeChanged)
}

func (s *shown) says(what ...lock.What) {
	for _, w := range what {
		s.notify(lock.Notice{What: w})
	}
}

// frees sends a message of Redisson's and shows who is left.
func (s *shown) frees(holds ...lock.SeenHold) {
	s.mu.Lock()
	s.bare++
	s.mu.Unlock()
	s.change(holds...)
}

// ends sends a message of lockd's.
func (s *shown) ends(c lock.EndCause, f lock.Fence, unsure bool) {
	s.notify(lock.Notice{What: lock.NoticeEnded, Cause: c, Fence: f, Unsure: unsure})
}

// hears has something happen to a name that is free, and compares what who watches it is told.
func hears(t *testing.T, do func(s *shown), want ...end) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		store := &shown{look: time.Millisecond, sight: lock.Sight{Tracked: true}}
		hub := watching.New(store)
		defer hub.Close()
		w := &watcher{}
		hub.Watch("n", w, 1)
		time.Sleep(20 * time.Millisecond)
		store.show()
		do(store)
		time.Sleep(3 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range want {
			want[i].name = "n"
		}
		if !slices.Equal(w.all, want) {
			t.Errorf("told %v, want %v", w.all, want)
		}
	})
}

func TestWhatIsToldOfAHold(t *testing.T) {
	const f = 7
	ours := lock.SeenHold{ID: "exclusive a#1", TTL: time.Minute, Fence: f}
	short := ours
	short.TTL = 100 * time.Millisecond
	unsure := ours
	unsure.Unsure, unsure.Fence = true, f+2
	rising := ours
	rising.Rising = true
	for what, row := range map[string]struct {
		do   func(s *shown)
		want []end
	}{
		"the message comes before the look": {func(s *shown) {
			s.show(ours)
			s.ends(lock.EndReleased, f, false)
			s.show()
			s.ends(lock.EndReleased, f, false) // repeated
		}, []end{{fence: f, cause: lock.EndReleased}}},
		"the message comes during a look that sees the hold": {func(s *shown) {
			s.change(ours)
			time.Sleep(5*time.Millisecond + 500*time.Microsecond)
			s.ends(lock.EndReleased, f, false)
			s.show()
		}, []end{{fence: f, cause: lock.EndReleased}}},
		"a deleted key": {func(s *shown) { s.show(ours); s.show() }, []end{{fence: f, cause: lock.EndForced}}},
		"a lease that runs out": {func(s *shown) {
			s.show(short)
			s.mu.Lock()
			s.sight.Holds = nil
			s.mu.Unlock()
		}, []end{{fence: f, cause: lock.EndExpired}}},
		"a hold too short to be seen": {func(s *shown) {
			s.mu.Lock()
			s.sight.Fence = f
			s.mu.Unlock()
			s.show()
		}, []end{{fence: f, cause: lock.EndExpired}}},
		"lost data": {func(s *shown) {
			s.show(ours)
			s.says(lock.NoticeFlushed)
			s.show()
		}, []end{{fence: f, cause: lock.EndDataLoss}}},
		"during an outage": {func(s *shown) {
			s.show(ours)
			s.says(lock.NoticeDeaf)
			s.show()
			s.says(lock.NoticeListening)
			s.ends(lock.EndReleased, f, false) // it knows more, and is a repeat
		}, []end{{fence: f}}},
		"just before it is known that messages are heard again": {func(s *shown) {
			s.show(ours)
			s.says(lock.NoticeDeaf)
			time.Sleep(2 * time.Second)
			s.mu.Lock()
			s.sight.Holds = nil
			s.mu.Unlock()
			s.says(lock.NoticeListening)
		}, []end{{fence: f}}},
		"a few of several stores tell, and it stands": {func(s *shown) {
			s.show(ours)
			s.ends(lock.EndForced, f, true)
			s.show(ours)
			s.ends(lock.EndReleased, f, false)
			s.show()
		}, []end{{fence: f, cause: lock.EndReleased}}},
		"a few of several stores tell, and it is gone": {func(s *shown) {
			s.show(ours)
			s.ends(lock.EndReleased, f, true)
			s.show()
		}, []end{{fence: f, cause: lock.EndReleased}}},
		"a few of several stores tell of an attempt that failed": {func(s *shown) {
			s.ends(lock.EndReleased, f, true)
			s.mu.Lock()
			s.sight.Fence = f
			s.mu.Unlock()
			s.show()
		}, nil},
		"it may last": {func(s *shown) {
			s.show(ours)
			for range 5 {
				s.show(unsure)
			}
			s.show()
		}, []end{{fence: f}}},
		"its fence is raised": {func(s *shown) {
			s.show(rising)
			s.ends(lock.EndReleased, f+1, false)
			s.mu.Lock()
			s.sight.Fence = f + 1
			s.mu.Unlock()
			s.show()
		}, []end{{fence: f + 1, cause: lock.EndReleased}}},
		"it was lost and put back": {func(s *shown) {
			s.show(ours)
			s.says(lock.NoticeFlushed)
			s.show()
			s.show(ours)
			s.ends(lock.EndReleased, f, false)
			s.show()
		}, []end{{fence: f, cause: lock.EndDataLoss}, {fence: f, cause: lock.EndReleased}}},
	} {
		t.Run(what, func(t *testing.T) { hears(t, row.do, row.want...) })
	}
}

// theirs are holds of another program.
func theirs(ids ...string) (all []lock.SeenHold) {
	for _, id := range ids {
		all = append(all, lock.SeenHold{ID: id, TTL: time.Minute, Foreign: true})
	}
	return all
}

// Messages of another program say nothing but that something was released.
func TestWhatIsToldOfAHoldOfAnotherProgram(t *testing.T) {
	released, forced := end{cause: lock.EndReleased}, end{cause: lock.EndForced}
	permit := lock.SeenHold{ID: "permit x", TTL: time.Minute, Foreign: true, Permit: true}
	expiring := theirs("exclusive a")
	expiring[0].TTL = 50 * time.Millisecond
	a, b := theirs("exclusive a"), theirs("exclusive b")
	during := 5*time.Millisecond + 500*time.Microsecond // after a change the look has seen, and is under way
	for what, row := range map[string]struct {
		do   func(s *shown)
		want []end
	}{
		"one after the other": {func(s *shown) {
			for range 20 {
				s.show(a...)
				s.frees()
				time.Sleep(10 * time.Millisecond)
			}
		}, slices.Repeat([]end{released}, 20)},
		"to the next one": {func(s *shown) { s.show(a...); s.frees(b...) }, []end{released}},
		"during a look":   {func(s *shown) { s.change(a...); time.Sleep(during); s.frees() }, []end{released}},
		"during a look that sees the next one": {func(s *shown) {
			s.show(a...)
			s.frees(b...)
			time.Sleep(during)
			s.frees()
		}, []end{released, released}},
		"too short to be seen":                     {func(s *shown) { s.frees(); s.frees() }, []end{released, released}},
		"too short to be seen, beside another one": {func(s *shown) { s.show(a...); s.frees(a...) }, []end{released}},
		"without a word":                           {func(s *shown) { s.show(a...); s.show() }, []end{released}},
		"a reader leaves others behind": {func(s *shown) {
			s.show(theirs("read a", "read b")...)
			s.show(theirs("read b")...)
			s.frees()
		}, []end{released, released}},
		"just before its lease ends": {func(s *shown) {
			s.show(expiring...)
			s.frees()
		}, []end{released}},
		"its lease ends": {func(s *shown) {
			s.show(expiring...)
			s.show()
		}, []end{{cause: lock.EndExpired}}},
		"by force": {func(s *shown) {
			s.show(a...)
			s.ends(lock.EndForced, 0, false)
			s.show()
		}, []end{forced}},
		"by force during a look": {func(s *shown) {
			s.show(a...)
			s.change()
			time.Sleep(during)
			s.ends(lock.EndForced, 0, false)
		}, []end{forced}},
		"by force, too short to be seen": {func(s *shown) { s.ends(lock.EndForced, 0, false) }, []end{forced}},
		"by force at one of several stores": {func(s *shown) {
			s.show(a...)
			s.ends(lock.EndForced, 0, true)
			s.show(a...)
		}, nil},
		"by force just after a release": {func(s *shown) {
			s.show(a...)
			s.frees(b...)
			time.Sleep(10 * time.Millisecond)
			s.ends(lock.EndForced, 0, false)
			s.show()
		}, []end{released, forced}},
		"permits by force, of which one was not seen": {func(s *shown) {
			s.show(permit)
			s.ends(lock.EndForced, 0, false)
			s.show()
		}, []end{forced, forced}},
		"a permit during an outage": {func(s *shown) {
			s.show(permit)
			s.says(lock.NoticeDeaf, lock.NoticeListening)
			s.show()
		}, []end{{}}},
	} {
		t.Run(what, func(t *testing.T) { hears(t, row.do, row.want...) })
	}
}
