package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// ear records what a listener hears.
type ear struct {
	s *suite

	mu      sync.Mutex // guards the fields below
	heard   map[lock.What]int
	told    []lock.Notice // all but NoticeListening
	forced  []string
	changed chan struct{} // closed and replaced at each change
}

func newEar(s *suite) *ear {
	return &ear{s: s, heard: map[lock.What]int{}, changed: make(chan struct{})}
}

// cycle takes a name and releases it.
func (s *suite) cycle(name string) lock.Returned {
	s.Helper()
	return s.release(back(claim(name, "o"), s.acquire(claim(name, "o")).Fence))
}

// listen makes an ear for a name and waits until it hears.
func (s *suite) listen(name string) (e *ear, stop func()) {
	s.Helper()
	return s.listenTo(name, lock.Exclusive)
}

// listenTo is listen for a kind.
func (s *suite) listenTo(name string, kind lock.Kind) (e *ear, stop func()) {
	s.Helper()
	e = newEar(s)
	stop = s.Store.Listen(name, kind, e.hear)
	s.Cleanup(stop)
	e.await("listening", func() bool { return e.heard[lock.NoticeListening] > 0 })
	return e, stop
}

func (e *ear) hear(n lock.Notice) {
	e.change(func() {
		e.heard[n.What]++
		if n.What != lock.NoticeListening {
			e.told = append(e.told, n)
		}
	})
}

func (e *ear) hearForced(name string) { e.change(func() { e.forced = append(e.forced, name) }) }

func (e *ear) change(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
	close(e.changed)
	e.changed = make(chan struct{})
}

// await waits until cond is true, which is called with mu held.
func (e *ear) await(what string, cond func() bool) {
	e.s.Helper()
	deadline := time.After(within)
	for {
		e.mu.Lock()
		ok, changed := cond(), e.changed
		e.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			e.s.Fatalf("not heard within %v: %s; heard %v %q", within, what, e.heard, e.forced)
		}
	}
}

// awaitTold waits for the wanted notices, and fails if others come. Notice.After is compared by wantTTL.
func (e *ear) awaitTold(want ...lock.Notice) {
	e.s.Helper()
	e.await("notices", func() bool { return len(e.told) >= len(want) })
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.told) != len(want) {
		e.s.Fatalf("heard %+v, want %+v", e.told, want)
	}
	for i, n := range want {
		got := e.told[i]
		if n.What == lock.NoticeTurn {
			e.s.wantTTL(got.After, n.After)
			got.After, n.After = 0, 0
		}
		if got != n {
			e.s.Errorf("notice %d: got %+v, want %+v", i, got, n)
		}
	}
}

// hasForced says whether a forced release of a name is heard within a time.
func (e *ear) hasForced(name string, wait time.Duration) bool {
	timeout := time.After(wait)
	for {
		e.mu.Lock()
		heard, changed := slices.Contains(e.forced, name), e.changed
		e.mu.Unlock()
		if heard {
			return true
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}

// awaitReleases waits for the n-th notice of a release and fails if there are more.
func (e *ear) awaitReleases(n int) {
	e.s.Helper()
	e.await("releases", func() bool { return e.heard[lock.NoticeReleased] >= n })
	e.mu.Lock()
	defer e.mu.Unlock()
	if got := e.heard[lock.NoticeReleased]; got != n {
		e.s.Errorf("heard of %d releases, want %d", got, n)
	}
}

var listenContract = []contract{
	{"AReleaseIsHeardOnceByEachListener", func(s *suite) {
		a, _ := s.listen("n")
		b, _ := s.listen("n")
		other, _ := s.listen("m")
		for i := range 3 {
			if res := s.cycle("n"); res.Listeners < 1 {
				s.Errorf("got %d listeners, want some", res.Listeners)
			}
			a.awaitReleases(i + 1)
			b.awaitReleases(i + 1)
		}
		s.cycle("m")
		other.awaitReleases(1)
	}},
	{"NobodyListensToAnUnheardName", func(s *suite) {
		if res := s.cycle("n"); res.Listeners != 0 {
			s.Errorf("got %d listeners, want none", res.Listeners)
		}
	}},
	{"AHandoffIsNotHeard", func(s *suite) {
		e, _ := s.listen("n")
		f := s.acquire(claim("n", "o")).Fence
		handoff := over(back(claim("n", "o"), f), "successor")
		next := s.release(handoff).HandedOver
		s.release(handoff) // repeated
		s.release(back(claim("n", "successor"), next))
		e.awaitReleases(1)
		s.cycle("n")
		e.awaitReleases(2)
	}},
	{"AFailedReleaseIsNotHeard", func(s *suite) {
		e, _ := s.listen("n")
		s.notHeld(back(claim("n", "o"), 0))
		s.force("n", lock.Exclusive)
		s.cycle("n")
		e.awaitReleases(1)
	}},
	{"WhoStoppedHearsNoMore", func(s *suite) {
		gone, stop := s.listen("n")
		stays, _ := s.listen("n")
		stop()
		stop()
		for i := range 2 {
			s.cycle("n")
			stays.awaitReleases(i + 1)
		}
		gone.mu.Lock()
		defer gone.mu.Unlock()
		if n := gone.heard[lock.NoticeReleased]; n > 0 {
			s.Errorf("heard of %d releases after it stopped", n)
		}
	}},
	{"ListeningAgainIsToldAgain", func(s *suite) {
		for range 20 {
			e, stop := s.listen("n")
			s.cycle("n")
			e.awaitReleases(1)
			stop()
		}
	}},
}

// yours is the notice to a waiter that the name is free, soon that it is the next one.
func yours(o lock.Owner) lock.Notice { return lock.Notice{What: lock.NoticeReleased, For: Full(o)} }

func soon(o lock.Owner) lock.Notice {
	return lock.Notice{What: lock.NoticeTurn, For: Full(o), After: ttl}
}
