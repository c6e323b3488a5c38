package redlock

import (
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// What a member has, or may have, that nobody holds is released until the member confirms it.

// certainty is how often a release is made again after the member said that there is nothing.
type certainty int

const (
	// sure: the member said that it has it.
	sure certainty = 0
	// unsure: the command that takes it may be executed later than its release.
	unsure certainty = 2
)

const (
	// maxLeftovers bounds what waits for another try. What is more ends with its TTL.
	maxLeftovers = 10_000
	// maxTries bounds the calls for one leftover.
	maxTries = 20
	// firstRetry is the pause after a call that failed. It doubles up to maxRetry.
	firstRetry = 50 * time.Millisecond
	maxRetry   = defaultCallTimeout
	// longest is how long what is left at a member is looked after at most, if its lease lasts as long.
	longest = maxTries * (maxRetry + defaultCallTimeout)
)

// againAfter are the pauses before a release that found nothing is made again.
var againAfter = [unsure]time.Duration{time.Second, 10 * time.Second}

// leftovers are those that wait for another try. They take no goroutines.
type leftovers struct {
	mu     sync.Mutex // guards the fields below
	timers map[*leftover]*time.Timer
	closed bool
}

// leftover is a release at one member. Only one call of it is under way.
type leftover struct {
	m     *member
	r     lock.Return
	end   time.Time // when what is left ends by itself
	again certainty // how often it is made again if nothing was found
	tries int
	found int // how often nothing was found
}

// undo makes the call, and makes it again later if that is needed.
func (s *Store) undo(l *leftover) {
	if s.closed.Load() {
		return
	}
	l.tries++
	s.underWay.Add(1)
	l.m.StartRelease(l.r, func(_ lock.Returned, err error) {
		defer s.underWay.Add(-1)
		if pause, again := l.answered(err); again && time.Now().Add(pause).Before(l.end) {
			s.undoLater(l, pause)
		}
	})
}

// answered says whether and when the call is to be made again.
func (l *leftover) answered(err error) (pause time.Duration, again bool) {
	switch {
	case l.tries >= maxTries:
		return 0, false
	case failed(err):
		return min(firstRetry<<min(l.tries-1, 10), maxRetry), true
	case err == nil || l.found >= int(l.again):
		return 0, false
	}
	l.found++
	return againAfter[l.found-1], true
}

func (s *Store) undoLater(l *leftover, pause time.Duration) {
	ls := &s.leftovers
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.closed || len(ls.timers) >= maxLeftovers {
		s.metrics.abandoned.Inc()
		return
	}
	if ls.timers == nil {
		ls.timers = make(map[*leftover]*time.Timer)
	}
	ls.timers[l] = time.AfterFunc(pause, func() {
		ls.mu.Lock()
		delete(ls.timers, l)
		ls.mu.Unlock()
		s.undo(l)
	})
}

// waiting is how many leftovers wait.
func (ls *leftovers) waiting() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.timers)
}

func (ls *leftovers) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
	for l, t := range ls.timers {
		t.Stop()
		delete(ls.timers, l)
	}
}
