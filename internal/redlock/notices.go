package redlock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// fewPause is for how long a release of which less than a majority told waits for other members, and up to as long
// again: waiters on several replicas must not all try at once.
const fewPause = 10 * time.Millisecond

// listening is the common part of listener and watcher.
type listening struct {
	s      *Store
	notify func(lock.Notice)

	mu      sync.Mutex // guards the fields below, and those of who embeds it
	hearing set
	heard   bool // the last of NoticeListening and NoticeDeaf that was told
	news    lock.Teller[lock.What]
	stopped bool
}

// hears notes whether a member is heard, and tells if that changes whether a majority is. Members call it at the same
// time, so a Teller keeps the order: the last notice must be the true one.
func (l *listening) hears(i int, hears bool) {
	l.mu.Lock()
	if hears {
		l.hearing.add(i)
	} else {
		l.hearing.remove(i)
	}
	was, tell := l.heard, false
	switch l.heard = l.hearing.len() >= l.s.quorum; {
	case l.heard && !was:
		tell = l.news.Add(lock.NoticeListening)
	case was && !l.heard:
		tell = l.news.Add(lock.NoticeDeaf)
	}
	l.mu.Unlock()
	if tell {
		l.news.Tell(func(what lock.What) { l.tell(lock.Notice{What: what}) })
	}
}

// tell passes a notice on, unless listening has stopped. mu is not held.
func (l *listening) tell(n lock.Notice) {
	l.mu.Lock()
	stopped := l.stopped
	l.mu.Unlock()
	if !stopped && n.What != 0 {
		l.notify(n)
	}
}

// at begins to listen at all members, and returns the function that stops it.
func (l *listening) at(begin func(m *member) (stop func())) func() {
	stop := l.s.atAll(begin)
	return func() {
		stop()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stopped = true
	}
}

// Listen implements lock.Store. A release is told when a majority of the members told of it, or a little later if fewer
// did and a majority is free.
func (s *Store) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	l := &listener{listening: listening{s: s, notify: notify}, name: name, kind: kind, told: make([]int, len(s.members))}
	return l.at(func(m *member) func() {
		return m.Listen(name, kind, func(n lock.Notice) { l.hear(m.number, n) })
	})
}

// listener counts what each member told of a name.
type listener struct {
	listening
	name   string
	kind   lock.Kind
	told   []int // releases that each member told of
	passed int   // releases that were passed on
	timer  bool  // a check is to come
}

func (l *listener) hear(i int, n lock.Notice) {
	switch n.What {
	case lock.NoticeListening, lock.NoticeDeaf:
		l.mu.Lock()
		l.told[i] = max(l.told[i], l.passed) // it is not expected to tell of what it missed
		l.mu.Unlock()
		l.hears(i, n.What == lock.NoticeListening)
	case lock.NoticeReleased:
		if l.released(i) {
			l.tell(n)
		}
	default:
		l.tell(n)
	}
}

// released notes that a member told of a release, and says whether to pass it on. Members that do not vote do not
// count.
func (l *listener) released(i int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[i]++
	var more set
	for i, told := range l.told {
		if told > l.passed {
			more.add(i)
		}
	}
	n := l.s.voters(more)
	if n >= l.s.quorum {
		l.passed++
		return true
	}
	if n > 0 && !l.timer && !l.stopped {
		l.timer = true
		time.AfterFunc(l.s.cfg.fewPause+rand.N(l.s.cfg.fewPause), l.check) //nolint:gosec // it need not be a secret
	}
	return false
}

// check finds out whether a release of which few members told is worth another attempt. An attempt that failed undoes
// what a minority granted: if that woke the waiters, their attempts would fail as well, and so on.
func (l *listener) check() {
	l.mu.Lock()
	l.timer = false
	most := l.passed
	for _, told := range l.told {
		most = max(most, told)
	}
	open := most > l.passed && !l.stopped
	l.passed = most
	for i := range l.told {
		l.told[i] = most
	}
	l.mu.Unlock()
	if !open {
		return
	}
	l.s.run(context.Background(), func(ctx context.Context) {
		if free, err := survey(ctx, l.s, "look at", l.name, lock.Exclusive, l.freeAt, l.enough); err != nil || free {
			l.tell(lock.Notice{What: lock.NoticeReleased})
		}
	})
}

// freeAt says whether a member votes and could grant the name.
func (l *listener) freeAt(ctx context.Context, m *member) (bool, error) {
	st, err := m.Look(ctx, l.name)
	return (!st.Held || l.kind == lock.Read && st.Kind == lock.Read) && !l.s.quarantined(m), err
}

// enough says whether a majority could grant the name. While it cannot, another release will be told, or a lease ends.
func (l *listener) enough(said []vote[bool]) (free, agreed bool) {
	n := 0
	for _, v := range said {
		n += count(v.v)
	}
	return n >= l.s.quorum, n >= l.s.quorum || len(said)-n > len(l.s.members)-l.s.quorum
}

// ListenForced implements lock.Store. Each member's message is passed on, because the caller verifies, and a majority
// has freed the name when the last message comes. An interruption is told when so many members were interrupted that a
// forced release may have been missed.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	var mu sync.Mutex
	var interrupted set // since the last interruption that was told; guarded by mu
	missed := func(i int) bool {
		mu.Lock()
		defer mu.Unlock()
		interrupted.add(i)
		if interrupted.len() < s.quorum {
			return false
		}
		interrupted = 0
		return true
	}
	return s.atAll(func(m *member) func() {
		return m.ListenForced(func(name string) {
			if name != "" {
				s.forced.saw(name)
			}
			if name != "" || missed(m.number) {
				notify(name)
			}
		})
	})
}
