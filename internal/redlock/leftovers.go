package redlock

import (
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

// undoLater takes no goroutine while it waits.
func (s *Store) undoLater(l *leftover, pause time.Duration) {
	if s.leftovers.Add(1) > maxLeftovers {
		s.leftovers.Add(-1)
		s.metrics.abandoned.Inc()
		return
	}
	time.AfterFunc(pause, func() {
		s.leftovers.Add(-1)
		s.undo(l)
	})
}
